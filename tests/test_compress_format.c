/*
 * compress/FORMAT.md by its golden files, tests/data/codec: good.txt and bad.txt say what each must
 * be read as, by the decoder in C and by tests/format_decoder.py, which was written from the text.
 * "test_compress_format write", run in the project's folder, makes all the files anew from the
 * lists; that is right only where the format, and with it the text and its version, has changed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include "base/alloc.h"
#include "base/file.h"
#include "compress/codec.h"
#include "compress/floats.h"
#include "compress/frame.h"
#include "tests/help_compress.h"

#define FOLDER "tests/data/codec/"
#define FILE_MAX 1000000
#define PATH_MAX_HERE 128

static void or_fail(enum err err, const struct why *why, const char *what)
{
	if (err)
		fail_msg("%s: %s", what, why->text);
}

/* ---- the lists */

struct words {
	char file[32];
	size_t n;
	char select[16], values[16];
	unsigned dct;
	uint32_t chunk, k;
	double threshold;
};

static struct codec_params params_of(const struct words *w)
{
	const struct codec_words words = {
		w->select, w->values, w->dct != 0, w->chunk, w->k, w->threshold};
	struct codec_params p = {0};
	struct why why = {0};
	or_fail(codec_find(&words, &p, &why), &why, w->file);
	return p;
}

static enum help_compress_kind kind_of(const char *name)
{
	static const char *const names[HELP_COMPRESS_kinds] = {
		"plain", "heavy", "zeros", "few", "equal", "subnormal", "huge", "mixed"};
	int kind = 0;
	while (kind < HELP_COMPRESS_kinds && strcmp(name, names[kind]) != 0)
		kind++;
	if (kind == HELP_COMPRESS_kinds)
		fail_msg("there is no kind of vector \"%s\"", name);
	return (enum help_compress_kind)kind;
}

struct good {
	struct words words;
	struct codec_params params, sent; /* as agreed on, as the sender took them */
	char kind[16];
	uint64_t vector_seed;
};

struct bad {
	struct words words;
	struct codec_params params;
	char code[16], from[32];
	const char *edits; /* "at 3 put 4", "cut 1": edit */
};

static struct good good_of(const char *line)
{
	struct good g = {0};
	uint32_t k = 0;
	uint64_t seed = 0;
	struct words *w = &g.words;
	int n = sscanf(line,
		"%31s %zu %15s %15s %u %" SCNu32 " %" SCNu32 " %lf %15s %" SCNu64 " %" SCNu32
		" %" SCNu64,
		w->file, &w->n, w->select, w->values, &w->dct, &w->chunk, &w->k, &w->threshold,
		g.kind, &g.vector_seed, &k, &seed);
	if (n != 12)
		fail_msg("good.txt: %d words in \"%s\"", n, line);
	g.params = g.sent = params_of(w);
	g.sent.k = k;
	g.sent.seed = seed;
	return g;
}

static struct bad bad_of(const char *line)
{
	struct bad b = {0};
	int at = 0;
	struct words *w = &b.words;
	int n = sscanf(line, "%31s %15s %zu %15s %15s %u %" SCNu32 " %" SCNu32 " %lf %31s %n",
		w->file, b.code, &w->n, w->select, w->values, &w->dct, &w->chunk, &w->k,
		&w->threshold, b.from, &at);
	if (n != 10)
		fail_msg("bad.txt: %d words in \"%s\"", n, line);
	b.params = params_of(w);
	b.edits = line + at;
	return b;
}

/* each is called with every line that is not a comment, which end with a NUL; how many. */
static size_t read_list(const char *path, void (*each)(const char *line))
{
	uint8_t *bytes;
	size_t len, count = 0;
	struct why why = {0};
	or_fail(file_read(path, FILE_MAX, &bytes, &len, &why), &why, path);
	for (char *line = (char *)bytes, *end; (end = strchr(line, '\n')); line = end + 1) {
		*end = 0;
		if (*line == '#')
			continue;
		each(line);
		count++;
	}
	free(bytes);
	return count;
}

/* ---- files */

/* The golden file of this name, with another ending. */
static void path_of(const char *file, const char *ending, char out[static PATH_MAX_HERE])
{
	snprintf(out, PATH_MAX_HERE, FOLDER "%.*s%s", (int)strcspn(file, "."), file, ending);
}

static bool is_frame(const char *file)
{
	return strstr(file, ".frame") != NULL;
}

static void load(const char *file, struct buf *to)
{
	char path[PATH_MAX_HERE];
	uint8_t *bytes;
	size_t len;
	struct why why = {0};
	path_of(file, strchr(file, '.'), path);
	or_fail(file_read(path, FILE_MAX, &bytes, &len, &why), &why, path);
	buf_init(to, FILE_MAX);
	buf_put(to, bytes, len);
	free(bytes);
}

static void store(const char *file, const char *ending, const void *bytes, size_t len)
{
	char path[PATH_MAX_HERE];
	struct why why = {0};
	path_of(file, ending, path);
	or_fail(file_write(path, bytes, len, 0644, &why), &why, path);
}

/* What a receiver does with the file's bytes. */
static enum err decode(const struct words *w, const struct codec_params *p, struct codec_vector *d,
	struct why *why)
{
	struct buf bytes, planes;
	load(w->file, &bytes);
	buf_init(&planes, is_frame(w->file) ? codec_bound(p, w->n) : FILE_MAX);
	enum err err = ERR_OK;
	if (is_frame(w->file))
		err = frame_unpack(bytes.data, bytes.len, &planes, why);
	else
		buf_put(&planes, bytes.data, bytes.len);
	*d = (struct codec_vector){0};
	if (!err)
		err = codec_open(p, w->n, &planes, d, why);
	buf_release(&planes);
	buf_release(&bytes);
	return err;
}

/* ---- golden files */

static void read_to_the_bit(const char *line)
{
	struct good g = good_of(line);
	struct codec_vector d;
	struct why why = {0};
	char path[PATH_MAX_HERE];
	uint8_t *expected;
	size_t len;
	or_fail(decode(&g.words, &g.params, &d, &why), &why, g.words.file);
	assert_memory_equal(&d.params, &g.sent, sizeof g.sent);
	path_of(g.words.file, ".floats", path);
	or_fail(file_read(path, FILE_MAX, &expected, &len, &why), &why, path);
	assert_int_equal(len, g.words.n * sizeof(float));
	float *got = alloc_must_zero(g.words.n, sizeof *got);
	assert_int_equal(codec_expand(&d, got), ERR_OK);
	for (size_t i = 0; i < g.words.n; i++) {
		uint32_t bits = 0;
		for (unsigned byte = 0; byte < 4; byte++)
			bits |= (uint32_t)expected[4 * i + byte] << 8 * byte;
		if (floats_bits(got[i]) != bits)
			fail_msg("%s: value %zu is 0x%08x, not 0x%08x", g.words.file, i,
				floats_bits(got[i]), bits);
	}
	free(got);
	free(expected);
	codec_release(&d);
}

static void golden_files_are_read_to_the_bit(void **state)
{
	(void)state;
	assert_true(read_list(FOLDER "good.txt", read_to_the_bit) > 0);
}

static void encode(const struct good *g, struct planes *to)
{
	struct why why = {0};
	float *v = help_compress_vector(kind_of(g->kind), g->words.n, g->vector_seed);
	planes_init(to, codec_bound(&g->sent, g->words.n));
	or_fail(codec_encode(&g->sent, v, g->words.n, NULL, to, &why), &why, g->words.file);
	free(v);
}

static void encoded_again(const char *line)
{
	struct good g = good_of(line);
	struct codec_vector d;
	struct planes again;
	struct why why = {0};
	or_fail(decode(&g.words, &g.params, &d, &why), &why, g.words.file);
	encode(&g, &again);
	if (d.planes.len != again.bytes.len ||
		memcmp(d.planes.data, again.bytes.data, again.bytes.len) != 0)
		fail_msg("%s: the vector it was made of has other planes now", g.words.file);
	planes_release(&again);
	codec_release(&d);
}

static void their_vectors_have_the_same_planes(void **state)
{
	(void)state;
	assert_true(read_list(FOLDER "good.txt", encoded_again) > 0);
}

static bool seen[5][256];

static void see(const char *line)
{
	struct good g = good_of(line);
	seen[g.params.select][g.params.values] = true;
}

static void every_selection_has_files_with_every_kind_of_values(void **state)
{
	(void)state;
	read_list(FOLDER "good.txt", see);
	for (uint32_t s = 1; select_row(s); s++)
		for (uint32_t v = 1; values_row(v); v++)
			if (!seen[s][v])
				fail_msg("good.txt has no %s of %s", select_row(s)->name,
					values_row(v)->name);
}

/* ---- bad files */

static void refused(const char *line)
{
	struct bad b = bad_of(line);
	struct codec_vector d;
	struct why why = {0};
	enum err err = decode(&b.words, &b.params, &d, &why);
	if (!err)
		fail_msg("%s was taken", b.words.file);
	if (strcmp(err_name(err), b.code) != 0)
		fail_msg("%s: %s (%s), not %s", b.words.file, err_name(err), why.text, b.code);
}

static void bad_files_are_refused_with_their_code(void **state)
{
	(void)state;
	assert_true(read_list(FOLDER "bad.txt", refused) > 0);
}

/* ---- the decoder that was written from the text */

static void the_second_decoder_reads_and_refuses_the_same(void **state)
{
	(void)state;
	if (system("python3 -c 'import ctypes, decimal, subprocess' >/dev/null 2>&1") != 0) {
		print_message("no python3: tests/format_decoder.py was not run\n");
		skip();
	}
	// Its lines go where a failed test's words are looked for.
	int status = system("python3 tests/format_decoder.py " FOLDER " >&2");
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- making the files */

static void write_good(const char *line)
{
	struct good g = good_of(line);
	struct planes planes;
	struct buf frame, floats;
	struct codec_vector d;
	struct why why = {0};
	encode(&g, &planes);
	buf_init(&frame, frame_bound(planes.bytes.len));
	or_fail(frame_pack(&planes, &frame), &why, g.words.file);
	store(g.words.file, ".frame", frame.data, frame.len);
	or_fail(decode(&g.words, &g.params, &d, &why), &why, g.words.file);
	float *v = alloc_must_zero(g.words.n, sizeof *v);
	assert_int_equal(codec_expand(&d, v), ERR_OK);
	buf_init(&floats, FILE_MAX);
	for (size_t i = 0; i < g.words.n; i++)
		buf_put_u32(&floats, floats_bits(v[i]));
	store(g.words.file, ".floats", floats.data, floats.len);
	free(v);
	buf_release(&floats);
	codec_release(&d);
	buf_release(&frame);
	planes_release(&planes);
}

/* So many zeros as a frame. */
static void put_bomb(size_t zeros, struct buf *to)
{
	struct planes planes;
	planes_init(&planes, zeros);
	memset(buf_grow(&planes.bytes, zeros), 0, zeros);
	planes_end(&planes);
	buf_clear(to);
	assert_int_equal(frame_pack(&planes, to), ERR_OK);
	planes_release(&planes);
}

static void edit(const char *edits, struct buf *b)
{
	char what[8];
	size_t number, where = 0;
	for (int used; sscanf(edits, "%7s %zu %n", what, &number, &used) == 2; edits += used) {
		if (strcmp(what, "at") == 0)
			where = number;
		else if (strcmp(what, "put") == 0 && where < b->len)
			b->data[where] = (uint8_t)number;
		else if (strcmp(what, "add") == 0)
			buf_put_u8(b, (uint8_t)number);
		else if (strcmp(what, "cut") == 0 && number <= b->len)
			b->len -= number;
		else if (strcmp(what, "keep") == 0 && number <= b->len)
			b->len = number;
		else if (strcmp(what, "bomb") == 0)
			put_bomb(number, b);
		else
			fail_msg("bad.txt: \"%s\" cannot be done", edits);
	}
	if (*edits)
		fail_msg("bad.txt: what is \"%s\"?", edits);
}

static void write_bad(const char *line)
{
	struct bad b = bad_of(line);
	struct buf frame, planes, *bytes = is_frame(b.words.file) ? &frame : &planes;
	struct why why = {0};
	char from[40];
	snprintf(from, sizeof from, "%s.frame", b.from);
	load(from, &frame);
	buf_init(&planes, FILE_MAX);
	or_fail(frame_unpack(frame.data, frame.len, &planes, &why), &why, from);
	edit(b.edits, bytes);
	store(b.words.file, strchr(b.words.file, '.'), bytes->data, bytes->len);
	buf_release(&planes);
	buf_release(&frame);
}

static void write_all(void **state)
{
	(void)state;
	read_list(FOLDER "good.txt", write_good);
	read_list(FOLDER "bad.txt", write_bad);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest writing[] = {cmocka_unit_test(write_all)};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden_files_are_read_to_the_bit),
		cmocka_unit_test(their_vectors_have_the_same_planes),
		cmocka_unit_test(every_selection_has_files_with_every_kind_of_values),
		cmocka_unit_test(bad_files_are_refused_with_their_code),
		cmocka_unit_test(the_second_decoder_reads_and_refuses_the_same),
	};
	if (argc == 2 && strcmp(argv[1], "write") == 0)
		return cmocka_run_group_tests(writing, NULL, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
