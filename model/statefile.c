#include "model/statefile.h"
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/file.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "sections are little-endian and are used as they lie"
#endif

#define ALIGN 8u
#define SECTION_HEAD (STATEFILE_NAME_MAX + sizeof(uint64_t))
#define SUFFIX ".state"

static const char magic[8] = {'S', 'H', 'O', 'A', 'L', 'S', 'T', 'A'};
static const uint8_t zeros[STATEFILE_NAME_MAX];

static size_t padding(uint64_t n)
{
	return (size_t)(-n % ALIGN);
}

/* ---- writing */

struct statefile_out {
	struct file_out *file;
	struct hash_state *hash;
	char *path;
	uint64_t left; /* of the section that is being filled */
	size_t pad;    /* to write after it */
	uint64_t sections;
};

static enum err put(struct statefile_out *f, const void *bytes, size_t n, struct why *why)
{
	if (n)
		hash_add(f->hash, bytes, n);
	return n ? file_out_put(f->file, bytes, n, why) : ERR_OK;
}

static enum err write_head(
	struct statefile_out *f, const struct statefile_head *head, struct why *why)
{
	char *meta = json_canonical(head->meta);
	size_t len = meta ? strlen(meta) : 0;
	if (!meta || len > STATEFILE_META_MAX) {
		free(meta);
		return err_why(why, meta ? ERR_toobig : ERR_nomem,
			"%s: no room for its meta of %zu bytes", f->path, len);
	}
	struct buf b;
	buf_init(&b, 64 + len + ALIGN);
	buf_put(&b, magic, sizeof magic);
	buf_put_u32(&b, STATEFILE_VERSION);
	buf_put_u32(&b, (uint32_t)len);
	buf_put(&b, head->kind, strlen(head->kind));
	buf_put(&b, zeros, STATEFILE_KIND_MAX - strlen(head->kind));
	buf_put(&b, head->run.b, sizeof head->run.b);
	buf_put(&b, meta, len);
	buf_put(&b, zeros, padding(len));
	enum err e = buf_ok(&b) ? put(f, b.data, b.len, why)
				: err_why(why, ERR_nomem, "no memory for a head of %zu bytes", len);
	buf_release(&b);
	free(meta);
	return e;
}

enum err statefile_create(const char *path, const struct statefile_head *head,
	struct statefile_out **out, struct why *why)
{
	assert(*head->kind && strlen(head->kind) <= STATEFILE_KIND_MAX);
	struct statefile_out *f = alloc_must_zero(1, sizeof *f);
	f->path = alloc_must_strdup(path);
	f->hash = hash_begin();
	enum err e = file_out_open(path, 0644, &f->file, why);
	if (!e)
		e = write_head(f, head, why);
	if (e) {
		statefile_discard(f);
		return e;
	}
	*out = f;
	return ERR_OK;
}

/* Ends the section before, then writes a head: a section's, or with an empty name the end mark. */
static enum err next_head(struct statefile_out *f, const char *name, uint64_t n, struct why *why)
{
	if (f->left)
		return err_why(why, ERR_state, "%s: %llu bytes of a section are missing", f->path,
			(unsigned long long)f->left);
	size_t pad = f->pad;
	f->pad = padding(n);
	f->left = n;
	uint8_t head[SECTION_HEAD] = {0};
	memcpy(head, name, strlen(name));
	for (unsigned i = 0; i < 8; i++)
		head[STATEFILE_NAME_MAX + i] = (uint8_t)(n >> (8 * i));
	enum err e = put(f, zeros, pad, why);
	return e ? e : put(f, head, sizeof head, why);
}

enum err statefile_section(struct statefile_out *f, const char *name, uint64_t n, struct why *why)
{
	assert(*name && strlen(name) <= STATEFILE_NAME_MAX && f->sections < STATEFILE_SECTIONS_MAX);
	enum err e = next_head(f, name, n, why);
	f->sections += !e;
	return e;
}

enum err statefile_put(struct statefile_out *f, const void *bytes, size_t n, struct why *why)
{
	if (n > f->left)
		return err_why(why, ERR_state, "%s: a section gets %llu bytes too many", f->path,
			(unsigned long long)(n - f->left));
	f->left -= n;
	return put(f, bytes, n, why);
}

enum err statefile_add(
	struct statefile_out *f, const char *name, const void *bytes, size_t n, struct why *why)
{
	enum err e = statefile_section(f, name, n, why);
	return e ? e : statefile_put(f, bytes, n, why);
}

enum err statefile_commit(struct statefile_out *f, struct why *why)
{
	enum err e = next_head(f, "", f->sections, why);
	if (!e) {
		struct hash h = hash_end(f->hash);
		f->hash = NULL;
		e = file_out_put(f->file, h.b, sizeof h.b, why);
	}
	struct file_out *file = e ? NULL : f->file;
	if (file)
		f->file = NULL;
	statefile_discard(f);
	return e ? e : file_out_commit(file, why);
}

void statefile_discard(struct statefile_out *f)
{
	if (!f)
		return;
	file_out_discard(f->file);
	if (f->hash)
		hash_drop(f->hash);
	free(f->path);
	free(f);
}

/* ---- reading */

struct statefile {
	struct file_map map; /* of statefile_open */
	char kind[STATEFILE_KIND_MAX + 1];
	struct hash run;
	json_t *meta;
	struct statefile_section *sections;
	size_t n, cap;
};

/* What is being read: the bytes, the reader in them, and the file's name for sentences. */
struct source {
	const char *name;
	const uint8_t *bytes;
	struct rd rd;
	const uint8_t *meta;
	size_t meta_len;
	struct why *why;
};

static enum err truncated(const struct source *src)
{
	return err_why(src->why, ERR_truncated,
		"%s ends too early: it is cut off; delete it or fetch it again", src->name);
}

static enum err malformed(const struct source *src, const char *what)
{
	return err_why(src->why, ERR_syntax, "%s is not a sound state file: %s", src->name, what);
}

/* A field of fixed width that holds a text padded with zeros. */
static bool read_padded(struct rd *r, char *out, size_t width)
{
	rd_copy(r, out, width);
	out[width] = 0;
	size_t len = strlen(out);
	for (size_t i = len; i < width; i++)
		if (out[i])
			return false;
	return true;
}

static bool skip_padding(struct rd *r, uint64_t n)
{
	const uint8_t *pad = rd_bytes(r, padding(n));
	return !pad || memcmp(pad, zeros, padding(n)) == 0;
}

static enum err read_head(struct source *src, struct statefile *s)
{
	const uint8_t *start = rd_bytes(&src->rd, sizeof magic);
	if (!start || memcmp(start, magic, sizeof magic) != 0)
		return err_why(src->why, ERR_magic, "%s is not a state file of shoal", src->name);
	uint32_t version = rd_u32(&src->rd);
	if (rd_ok(&src->rd) && version != STATEFILE_VERSION)
		return err_why(src->why, ERR_version,
			"%s is a state file of version %u, this program reads version %d; use the "
			"program that "
			"wrote it",
			src->name, version, STATEFILE_VERSION);
	src->meta_len = rd_u32(&src->rd);
	bool sound = read_padded(&src->rd, s->kind, STATEFILE_KIND_MAX);
	rd_copy(&src->rd, s->run.b, sizeof s->run.b);
	if (rd_ok(&src->rd) && src->meta_len > STATEFILE_META_MAX)
		return malformed(src, "its meta is larger than allowed");
	src->meta = rd_bytes(&src->rd, src->meta_len);
	sound &= skip_padding(&src->rd, src->meta_len);
	if (!rd_ok(&src->rd))
		return truncated(src);
	return sound ? ERR_OK : malformed(src, "its padding is not zero");
}

static enum err room_for_section(const struct source *src, struct statefile *s)
{
	if (s->n == STATEFILE_SECTIONS_MAX)
		return malformed(src, "it has too many sections");
	if (s->n < s->cap)
		return ERR_OK;
	size_t cap = s->cap ? 2 * s->cap : 64;
	struct statefile_section *more = alloc_try_resize(s->sections, cap, sizeof *more);
	if (!more)
		return err_why(src->why, ERR_nomem, "%s: no memory for its sections", src->name);
	s->sections = more;
	s->cap = cap;
	return ERR_OK;
}

/* Every section up to the end mark. */
static enum err read_sections(struct source *src, struct statefile *s)
{
	struct rd *r = &src->rd;
	for (;;) {
		struct statefile_section next = {0};
		bool sound = read_padded(r, next.name, STATEFILE_NAME_MAX);
		uint64_t len = rd_u64(r);
		if (!rd_ok(r))
			return truncated(src);
		if (sound && !*next.name)
			return len == s->n ? ERR_OK : malformed(src, "sections are missing");
		if (len > rd_left(r))
			return truncated(src);
		next.len = (size_t)len;
		next.bytes = rd_bytes(r, next.len);
		sound &= skip_padding(r, len);
		if (!sound)
			return malformed(src, "its padding is not zero");
		enum err e = room_for_section(src, s);
		if (e)
			return e;
		s->sections[s->n++] = next;
	}
}

/* The hash stands behind the end mark, and nothing behind the hash. */
static enum err check_hash(struct source *src)
{
	struct hash stored, is = hash_of(src->bytes, (size_t)(src->rd.at - src->bytes));
	rd_copy(&src->rd, stored.b, sizeof stored.b);
	if (!rd_ok(&src->rd))
		return truncated(src);
	if (!rd_done(&src->rd))
		return malformed(src, "something follows its end");
	if (!hash_equal(&stored, &is))
		return err_why(src->why, ERR_hash,
			"%s is damaged: its content does not match its hash; delete it or fetch it "
			"again",
			src->name);
	return ERR_OK;
}

static enum err check_owner(const struct source *src, const struct statefile *s, const char *kind,
	const struct hash *run)
{
	if (strcmp(s->kind, kind) != 0)
		return err_why(src->why, ERR_magic, "%s is a state file of kind \"%s\", not \"%s\"",
			src->name, s->kind, kind);
	if (!run || hash_equal(run, &s->run))
		return ERR_OK;
	char theirs[HASH_HEX], ours[HASH_HEX];
	hash_hex(&s->run, theirs);
	hash_hex(run, ours);
	return err_why(src->why, ERR_wrong_run,
		"%s belongs to run %.12s, this is run %.12s; use another folder or that run's spec",
		src->name, theirs, ours);
}

static enum err read_meta(const struct source *src, struct statefile *s)
{
	struct why inner = {0};
	enum err e = json_parse(src->meta, src->meta_len, STATEFILE_META_MAX, &s->meta, &inner);
	if (e)
		return err_why(src->why, e == ERR_nomem ? e : ERR_syntax,
			"%s: its meta is not sound: %s", src->name, inner.text);
	return json_is_object(s->meta) ? ERR_OK : malformed(src, "its meta is not a JSON object");
}

enum err statefile_parse(const struct statefile_bytes *from, const char *kind,
	const struct hash *run, struct statefile **out, struct why *why)
{
	struct source src = {.name = from->name, .bytes = from->bytes, .why = why};
	rd_init(&src.rd, from->bytes, from->len);
	struct statefile *s = alloc_must_zero(1, sizeof *s);
	enum err e = read_head(&src, s);
	if (!e)
		e = read_sections(&src, s);
	if (!e)
		e = check_hash(&src);
	if (!e)
		e = check_owner(&src, s, kind, run);
	if (!e)
		e = read_meta(&src, s);
	if (e) {
		statefile_close(s);
		return e;
	}
	*out = s;
	return ERR_OK;
}

enum err statefile_open(const char *path, const char *kind, const struct hash *run,
	struct statefile **out, struct why *why)
{
	struct file_map map;
	enum err e = file_map(path, &map, why);
	if (e)
		return e;
	struct statefile_bytes from = {.name = path, .bytes = map.data, .len = map.len};
	e = statefile_parse(&from, kind, run, out, why);
	if (e)
		file_unmap(&map);
	else
		(*out)->map = map;
	return e;
}

void statefile_close(struct statefile *s)
{
	if (!s)
		return;
	file_unmap(&s->map);
	json_decref(s->meta);
	free(s->sections);
	free(s);
}

const char *statefile_kind(const struct statefile *s)
{
	return s->kind;
}

struct hash statefile_run(const struct statefile *s)
{
	return s->run;
}

const json_t *statefile_meta(const struct statefile *s)
{
	return s->meta;
}

size_t statefile_count(const struct statefile *s)
{
	return s->n;
}

const struct statefile_section *statefile_at(const struct statefile *s, size_t i)
{
	assert(i < s->n);
	return &s->sections[i];
}

enum err statefile_find(const struct statefile *s, const char *name, size_t len,
	const uint8_t **bytes, struct why *why)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct statefile_section *found = &s->sections[i];
		if (strcmp(found->name, name) != 0)
			continue;
		if (found->len != len)
			return err_why(why, ERR_shape,
				"section %s of the state has %zu bytes instead of %zu", name,
				found->len, len);
		*bytes = found->bytes;
		return ERR_OK;
	}
	return err_why(why, ERR_missing, "the state has no section %s", name);
}

/* ---- series */

char *statefile_path(const struct statefile_series *series, uint64_t number)
{
	return alloc_must_printf(
		"%s/%s-%012llu" SUFFIX, series->dir, series->prefix, (unsigned long long)number);
}

/* Whether statefile_path gives this name for some number. */
static bool number_of(const struct statefile_series *series, const char *file, uint64_t *number)
{
	size_t skip = strlen(series->prefix);
	if (strncmp(file, series->prefix, skip) != 0 || file[skip] != '-')
		return false;
	*number = strtoull(file + skip + 1, NULL, 10);
	char *path = statefile_path(series, *number);
	bool same = strcmp(strrchr(path, '/') + 1, file) == 0;
	free(path);
	return same;
}

static int descending(const void *left, const void *right)
{
	const uint64_t *a = left, *b = right;
	return *a < *b ? 1 : *a > *b ? -1 : 0;
}

/* The numbers there are, highest first, as uint64_t in out. */
static enum err list_numbers(
	const struct statefile_series *series, struct buf *out, struct why *why)
{
	buf_init(out, 1u << 24);
	DIR *dir = opendir(series->dir);
	if (!dir)
		return file_why(why, "read the folder", series->dir, errno);
	uint64_t number;
	for (const struct dirent *d; (d = readdir(dir));)
		if (number_of(series, d->d_name, &number))
			buf_put(out, &number, sizeof number);
	closedir(dir);
	if (!buf_ok(out))
		return err_why(
			why, ERR_nomem, "no memory for the list of files in %s", series->dir);
	if (out->len)
		qsort(out->data, out->len / sizeof number, sizeof number, descending);
	return ERR_OK;
}

/* Not the file's fault: an older one would only hide it. */
static bool must_stop(enum err e)
{
	return e == ERR_nomem || e == ERR_io || e == ERR_permission;
}

enum err statefile_open_newest(const struct statefile_series *series, struct statefile **out,
	uint64_t *number, struct buf *passed, struct why *why)
{
	struct buf list;
	enum err e = list_numbers(series, &list, why);
	size_t n = e ? 0 : list.len / sizeof *number;
	if (!e && n == 0)
		e = err_why(why, ERR_missing, "there is no file %s-NUMBER" SUFFIX " in %s",
			series->prefix, series->dir);
	for (size_t i = 0; i < n; i++) {
		memcpy(number, list.data + i * sizeof *number, sizeof *number);
		char *path = statefile_path(series, *number);
		struct why inner = {0};
		enum err bad = statefile_open(path, series->kind, series->run, out, &inner);
		free(path);
		if (!bad || i == 0 || must_stop(bad))
			e = bad ? err_why(why, bad, "%s", inner.text) : ERR_OK;
		if (!bad || must_stop(bad))
			break;
		buf_printf(passed, "%s\n", inner.text);
	}
	buf_release(&list);
	return e;
}

void statefile_sweep(const struct statefile_series *series)
{
	char *prefix = alloc_must_printf("%s-", series->prefix);
	file_sweep(series->dir, prefix);
	free(prefix);
}

void statefile_prune(const struct statefile_series *series, size_t keep)
{
	struct buf list;
	uint64_t number;
	if (list_numbers(series, &list, NULL) == ERR_OK) {
		for (size_t i = keep; i < list.len / sizeof number; i++) {
			memcpy(&number, list.data + i * sizeof number, sizeof number);
			char *path = statefile_path(series, number);
			unlink(path);
			free(path);
		}
	}
	buf_release(&list);
}
