#include "net/msg.h"
#include "base/buf.h"
#include "base/text.h"
#include <assert.h>
#include <pb_common.h>
#include <pb_decode.h>
#include <pb_encode.h>
#include <stdio.h>
#include <string.h>

static const uint8_t magic[4] = {'S', 'H', 'O', 'L'};

static_assert(shoal_header_size <= MSG_HEADER_MAX, "the schema outgrew the header");
#define X(number, name, way, payload) \
	static_assert( \
		shoal_header_##name##_tag == number, "MSG_LIST and the schema disagree: " #name);
MSG_LIST(X)
#undef X

static const struct msg_row rows[] = {
#define X(number, name, way, payload) [number] = {#name, way, payload},
	MSG_LIST(X)
#undef X
};

const struct msg_row *msg_row(uint32_t kind)
{
	return kind < sizeof rows / sizeof *rows && rows[kind].name ? &rows[kind] : NULL;
}

const char *msg_name(uint32_t kind)
{
	const struct msg_row *row = msg_row(kind);
	return row ? row->name : "unknown";
}

size_t msg_encode(const shoal_header *header, uint8_t out[static MSG_HEAD_MAX])
{
	memcpy(out, magic, sizeof magic);
	out[4] = MSG_MAJOR & 0xff, out[5] = MSG_MAJOR >> 8;
	out[6] = MSG_MINOR & 0xff, out[7] = MSG_MINOR >> 8;
	pb_ostream_t to = pb_ostream_from_buffer(out + MSG_PREAMBLE, MSG_HEADER_MAX);
	bool ok = pb_encode(&to, shoal_header_fields, header);
	assert(ok && "a header of ours does not encode: a text without its end");
	return ok ? MSG_PREAMBLE + to.bytes_written : 0;
}

/* Texts of the body that is set: safe to print from here on. */
static void clean_texts(shoal_header *header)
{
	pb_field_iter_t outer, inner;
	if (!pb_field_iter_begin(&outer, shoal_header_fields, header) ||
		!pb_field_iter_find(&outer, header->which_body) ||
		!pb_field_iter_begin(&inner, outer.submsg_desc, outer.pData))
		return;
	do {
		if (PB_LTYPE(inner.type) == PB_LTYPE_STRING)
			text_clean(inner.pData);
	} while (pb_field_iter_next(&inner));
}

static enum err read_preamble(struct rd *r, struct why *why)
{
	const uint8_t *m = rd_bytes(r, sizeof magic);
	uint16_t major = rd_u16(r), minor = rd_u16(r);
	if (!rd_ok(r))
		return err_why(why, ERR_truncated, "a message ends inside its preamble");
	if (memcmp(m, magic, sizeof magic) != 0)
		return err_why(why, ERR_magic, "this is not a message of shoal");
	if (major != MSG_MAJOR)
		return err_why(why, ERR_version,
			"the other side speaks protocol %u.%u, this side %u.%u; update the older "
			"one",
			major, minor, MSG_MAJOR, MSG_MINOR);
	return ERR_OK;
}

enum err msg_decode(const void *frame, size_t n, shoal_header *out, struct why *why)
{
	struct rd r;
	*out = (shoal_header)shoal_header_init_zero;
	rd_init(&r, frame, n);
	enum err err = read_preamble(&r, why);
	if (err)
		return err;
	if (rd_left(&r) > MSG_HEADER_MAX)
		return err_why(why, ERR_toobig, "a header of %zu bytes, the most is %d",
			rd_left(&r), MSG_HEADER_MAX);
	pb_istream_t from = pb_istream_from_buffer(r.at, rd_left(&r));
	if (!pb_decode(&from, shoal_header_fields, out)) {
		*out = (shoal_header)shoal_header_init_zero;
		return err_why(
			why, ERR_syntax, "a header cannot be decoded: %s", PB_GET_ERROR(&from));
	}
	if (!msg_row(out->which_body)) {
		*out = (shoal_header)shoal_header_init_zero;
		return err_why(why, ERR_unsupported, "a message of a kind not known here");
	}
	clean_texts(out);
	return ERR_OK;
}

enum err msg_check(const shoal_header *header, enum msg_way me, bool has_payload, size_t payload,
	struct why *why)
{
	const struct msg_row *row = msg_row(header->which_body);
	if (!row)
		return err_why(why, ERR_unsupported, "a message of a kind not known here");
	if (!(row->way & me))
		return err_why(why, ERR_permission, "%s is not sent in this direction", row->name);
	if (has_payload != (row->payload_max > 0))
		return err_why(why, ERR_syntax, "%s %s", row->name,
			has_payload ? "has no payload" : "needs a payload");
	if (payload > row->payload_max)
		return err_why(why, ERR_toobig, "%s with %zu bytes of payload, the most is %zu",
			row->name, payload, row->payload_max);
	return ERR_OK;
}

shoal_header msg_refusal(uint32_t kind, enum err code, const char *text)
{
	shoal_header h = shoal_header_init_zero;
	h.which_body = MSG_refusal;
	h.body.refusal.code = code;
	h.body.refusal.kind = kind;
	snprintf(h.body.refusal.text, sizeof h.body.refusal.text, "%s", text);
	return h;
}

shoal_header msg_bye(const char *reason)
{
	shoal_header h = shoal_header_init_zero;
	h.which_body = MSG_bye;
	snprintf(h.body.bye.reason, sizeof h.body.bye.reason, "%s", reason);
	return h;
}
