/* Messages: round trip of every kind, limits, and PROTOCOL.md against list and schema. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pb_common.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/rng.h"
#include "net/msg.h"

static const uint32_t kinds[] = {
#define X(number, name, way, payload) number,
	MSG_LIST(X)
#undef X
};
#define KINDS (sizeof kinds / sizeof *kinds)

/* Every field of a message set to something, texts and bytes to their limits. */
static void fill(pb_field_iter_t *f, uint64_t seed)
{
	uint64_t n = 0;
	do {
		uint64_t v = rng_u64(seed, 0, n++) | 1;
		switch (PB_LTYPE(f->type)) {
		case PB_LTYPE_STRING:
			memset(f->pData, 'a' + (int)(v % 26), f->data_size - 1);
			break;
		case PB_LTYPE_FIXED_LENGTH_BYTES: memset(f->pData, (int)v, f->data_size); break;
		case PB_LTYPE_BYTES: {
			pb_bytes_array_t *b = f->pData;
			b->size = (pb_size_t)(f->data_size - offsetof(pb_bytes_array_t, bytes));
			b->size = b->size > 1024 ? 1024 : b->size;
			memset(b->bytes, (int)v, b->size);
			break;
		}
		default:
			// A state, and a float that is a number.
			v = f->tag == 2 && f->data_size == 4 ? 3 : v;
			memcpy(f->pData, &v, f->data_size);
		}
	} while (pb_field_iter_next(f));
}

static shoal_header full(uint32_t kind, uint64_t seed)
{
	shoal_header h = shoal_header_init_zero;
	pb_field_iter_t outer, inner;
	h.which_body = (pb_size_t)kind;
	assert_true(pb_field_iter_begin(&outer, shoal_header_fields, &h));
	assert_true(pb_field_iter_find(&outer, kind));
	assert_true(pb_field_iter_begin(&inner, outer.submsg_desc, outer.pData));
	fill(&inner, seed);
	return h;
}

static void every_kind_comes_back_as_it_went(void **state)
{
	(void)state;
	uint8_t one[MSG_HEAD_MAX], two[MSG_HEAD_MAX];
	for (size_t i = 0; i < KINDS; i++) {
		for (uint64_t seed = 0; seed < 20; seed++) {
			shoal_header h = full(kinds[i], seed), back;
			struct why why;
			size_t n = msg_encode(&h, one);
			assert_true(n > MSG_PREAMBLE && n <= MSG_HEAD_MAX);
			assert_int_equal(msg_decode(one, n, &back, &why), ERR_OK);
			assert_int_equal(back.which_body, kinds[i]);
			assert_int_equal(msg_encode(&back, two), n);
			assert_memory_equal(one, two, n);
			// Cut anywhere, it is refused or is another message; it is never read too
			// far.
			for (size_t cut = 0; cut < n; cut++) {
				uint8_t *exact = memcpy(alloc_must(cut + 1), one, cut);
				(void)!msg_decode(exact, cut, &back, &why);
				free(exact);
			}
		}
	}
}

static void texts_become_safe_to_print(void **state)
{
	(void)state;
	uint8_t frame[MSG_HEAD_MAX];
	struct why why;
	shoal_header h = msg_bye("a\nb\x1b[31mc\xff d\xc3\xa4"), back;
	size_t n = msg_encode(&h, frame);
	assert_int_equal(msg_decode(frame, n, &back, &why), ERR_OK);
	assert_string_equal(back.body.bye.reason, "a?b?[31mc? d\xc3\xa4");
}

static void sentences_are_cut_to_what_fits(void **state)
{
	(void)state;
	char text[1000];
	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = 0;
	shoal_header r = msg_refusal(MSG_report, ERR_hash, text), b = msg_bye(text);
	assert_int_equal(strlen(r.body.refusal.text), 399);
	assert_int_equal(strlen(b.body.bye.reason), 199);
	assert_int_equal(r.body.refusal.code, ERR_hash);
	assert_int_equal(r.body.refusal.kind, MSG_report);
}

static void what_is_refused_says_why(void **state)
{
	(void)state;
	static const struct {
		const char *bytes;
		size_t n;
		enum err err;
	} cases[] = {
		{"", 0, ERR_truncated}, {"SHOL\1\0\0", 7, ERR_truncated},
		{"SHOX\1\0\0\0", 8, ERR_magic}, {"SHOL\2\0\0\0", 8, ERR_version},
		{"SHOL\1\0\0\0", 8, ERR_unsupported},            // no kind at all
		{"SHOL\1\0\0\0\xc2\x0c\0", 11, ERR_unsupported}, // kind 200
		{"SHOL\1\0\0\0\x0a\x05\x08", 11, ERR_syntax}, // a hello of five bytes, one is there
		{"SHOL\1\0\0\0\x0a\x04\x22\x02zz", 14, ERR_syntax}, // a run of two bytes
		{"SHOL\1\0\x63\0\x52\0", 10, ERR_OK},               // a later minor
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		shoal_header h;
		struct why why = {0};
		assert_int_equal(msg_decode(cases[i].bytes, cases[i].n, &h, &why), cases[i].err);
		assert_int_equal(why.code, cases[i].err);
		if (cases[i].err)
			assert_int_equal(h.which_body, 0);
	}
}

static void direction_and_payload_follow_the_list(void **state)
{
	(void)state;
	for (size_t i = 0; i < KINDS; i++) {
		const struct msg_row *row = msg_row(kinds[i]);
		shoal_header h = full(kinds[i], 1);
		struct why why;
		bool second = row->payload_max > 0;
		for (enum msg_way me = MSG_to_coordinator; me <= MSG_to_peer; me++)
			assert_int_equal(msg_check(&h, me, second, 1, &why) == ERR_permission,
				!(row->way & me));
		enum msg_way me = row->way & MSG_to_peer ? MSG_to_peer : MSG_to_coordinator;
		assert_int_equal(msg_check(&h, me, !second, 0, &why), ERR_syntax);
		if (second)
			assert_int_equal(
				msg_check(&h, me, true, row->payload_max + 1, &why), ERR_toobig);
	}
	assert_null(msg_row(0));
	assert_null(msg_row(10000));
	assert_string_equal(msg_name(10000), "unknown");
	assert_string_equal(msg_name(MSG_chunk), "chunk");
}

static void has_line(const char *document, const char *line)
{
	if (!strstr(document, line))
		fail_msg("PROTOCOL.md lacks: %s", line);
}

static void describe(struct buf *b, const char *name, const pb_field_iter_t *f)
{
	size_t bytes = f->data_size - offsetof(pb_bytes_array_t, bytes);
	buf_printf(b, "%u %s ", f->tag, name);
	switch (PB_LTYPE(f->type)) {
	case PB_LTYPE_STRING: buf_printf(b, "text %u", f->data_size - 1u); break;
	case PB_LTYPE_FIXED_LENGTH_BYTES: buf_printf(b, "bytes %u", f->data_size); break;
	// The struct of bytes may end in padding.
	case PB_LTYPE_BYTES: buf_printf(b, "bytes up to %zu", bytes & ~(size_t)7); break;
	case PB_LTYPE_FIXED32: buf_printf(b, "float"); break;
	default: buf_printf(b, "%s", f->data_size == 8 ? "u64" : "u32"); break;
	}
}

/* Names and limits of fields, from the generated descriptors. */
static void one_message(const char *document, const char *message, const pb_msgdesc_t *fields,
	const char *const *names, size_t n)
{
	struct buf line;
	shoal_header space = shoal_header_init_zero; // large enough for any of them
	pb_field_iter_t f;
	buf_init(&line, 1000);
	buf_printf(&line, "| %s | ", message);
	assert_true(pb_field_iter_begin(&f, fields, &space.body));
	for (size_t i = 0; i < n; i++, pb_field_iter_next(&f)) {
		bool enumerated =
			strcmp(names[i], "state") == 0 && PB_LTYPE(f.type) <= PB_LTYPE_UVARINT;
		bool real = strstr(names[i], "nats") != NULL;
		buf_printf(&line, "%s", i ? ", " : "");
		if (enumerated || real)
			buf_printf(&line, "%u %s %s", f.tag, names[i], real ? "double" : "enum");
		else
			describe(&line, names[i], &f);
	}
	buf_printf(&line, " |\n");
	buf_put_u8(&line, 0);
	assert_true(buf_ok(&line));
	has_line(document, (const char *)line.data);
	buf_release(&line);
}

#define NAME(a, atype, htype, ltype, name, tag) #name,
#define FIELDS(message) \
	do { \
		static const char *const names[] = {shoal_##message##_FIELDLIST(NAME, 0)}; \
		one_message(document, #message, &shoal_##message##_msg, names, \
			sizeof names / sizeof *names); \
	} while (0)

static void protocol_md_tells_list_and_schema(void **state)
{
	(void)state;
	uint8_t *bytes;
	size_t n;
	struct why why;
	assert_int_equal(file_read("net/PROTOCOL.md", 1u << 20, &bytes, &n, &why), ERR_OK);
	const char *document = (const char *)bytes;
	static const char *const ways[] = {"", "coordinator", "peer", "both"};
	size_t rows = 0;
	for (size_t i = 0; i < KINDS; i++) {
		const struct msg_row *row = msg_row(kinds[i]);
		char line[200];
		snprintf(line, sizeof line, "\n| %u | %s | %s | %zu | ", kinds[i], row->name,
			ways[row->way], row->payload_max);
		has_line(document, line);
	}
	for (const char *at = document; (at = strstr(at, "\n| ")); at += 3)
		rows += at[3] >= '0' && at[3] <= '9';
	assert_int_equal(rows, KINDS); // and no row for what is not in the list
#define X(number, name, way, payload) FIELDS(name);
	MSG_LIST(X)
#undef X
	char version[64];
	snprintf(version, sizeof version, "This is version **%d.%d**", MSG_MAJOR, MSG_MINOR);
	has_line(document, version);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_comes_back_as_it_went),
		cmocka_unit_test(texts_become_safe_to_print),
		cmocka_unit_test(sentences_are_cut_to_what_fits),
		cmocka_unit_test(what_is_refused_says_why),
		cmocka_unit_test(direction_and_payload_follow_the_list),
		cmocka_unit_test(protocol_md_tells_list_and_schema),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
