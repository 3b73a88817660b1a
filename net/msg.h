/*
 * Messages of the data plane: a preamble that every version can read, then a bounded nanopb header
 * (net/messages.proto), then, for some kinds, a second frame with the payload.
 *
 *   frame 1   "SHOL", major u16, minor u16 (little-endian), header of at most MSG_HEADER_MAX bytes
 *   frame 2   the payload, at most what the kind's row allows; absent for kinds with 0 there
 *
 * The kind is the tag of the one field that is set in struct shoal_header (which_body); decoding
 * allocates nothing.  A refusal names what was wrong in why; nothing here keeps state.
 */
#ifndef NET_MSG_H
#define NET_MSG_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "net/messages.pb.h"

#define MSG_MAJOR 1 /* another major is refused; a higher minor may add kinds and fields */
#define MSG_MINOR 2
#define MSG_PREAMBLE 8
#define MSG_HEADER_MAX 2048
#define MSG_HEAD_MAX (MSG_PREAMBLE + MSG_HEADER_MAX) /* of frame 1 */
#define MSG_PAYLOAD_MAX (1u << 20)
#define MSG_STATEMENT_MAX 8192u /* of a receipt: a contribution's signed head */
#define MSG_LINKS_MAX 65536u

/* Number on the wire (append, never renumber, never reuse), name, direction, largest payload. */
#define MSG_LIST(X) \
	X(1, hello, MSG_to_coordinator, 0) \
	X(2, welcome, MSG_to_peer, 0) \
	X(3, heartbeat, MSG_to_coordinator, 0) \
	X(4, echo, MSG_to_peer, 0) \
	X(5, refusal, MSG_both_ways, 0) \
	X(6, bye, MSG_both_ways, 0) \
	X(7, plan, MSG_to_peer, MSG_PAYLOAD_MAX) \
	X(8, head, MSG_to_peer, MSG_PAYLOAD_MAX) \
	X(9, roster, MSG_to_peer, MSG_PAYLOAD_MAX) \
	X(10, amendment, MSG_to_peer, MSG_PAYLOAD_MAX) \
	X(11, park, MSG_to_peer, 0) \
	X(12, end, MSG_to_peer, 0) \
	X(13, report, MSG_to_coordinator, 0) \
	X(14, validation, MSG_to_coordinator, 0) \
	X(15, want, MSG_both_ways, 0) \
	X(16, begin, MSG_both_ways, 0) \
	X(17, credit, MSG_both_ways, 0) \
	X(18, chunk, MSG_both_ways, MSG_PAYLOAD_MAX) \
	X(19, done, MSG_both_ways, 0) \
	X(20, decline, MSG_both_ways, 0) \
	X(21, cancel, MSG_both_ways, 0) \
	X(22, receipt, MSG_to_coordinator, MSG_STATEMENT_MAX) \
	X(23, gather, MSG_to_peer, MSG_PAYLOAD_MAX) \
	X(24, witness, MSG_to_peer, MSG_PAYLOAD_MAX) \
	X(25, verdict, MSG_to_coordinator, 0) \
	X(26, probe, MSG_to_peer, MSG_LINKS_MAX) \
	X(27, links, MSG_to_coordinator, MSG_LINKS_MAX)

/* Who may receive it. */
enum msg_way { MSG_to_coordinator = 1, MSG_to_peer = 2, MSG_both_ways = 3 };

enum msg_kind {
#define X(number, name, way, payload) MSG_##name = number,
	MSG_LIST(X)
#undef X
};

struct msg_row {
	const char *name;
	enum msg_way way;
	size_t payload_max;
};

/* The row of a kind; NULL for a number that is not listed. */
const struct msg_row *msg_row(uint32_t kind);
/* For log lines; "unknown" for a number that is not listed. */
const char *msg_name(uint32_t kind);

/* Encode a header (which_body set, texts terminated) behind the preamble; returns the length of the
 * frame.  A header that is ours always fits. */
size_t msg_encode(const shoal_header *header, uint8_t out[static MSG_HEAD_MAX]);

/* Decode frame 1 of any length and content.  *out is whole on success and zero otherwise; control
 * characters in texts become '?', and what is not ASCII stays only where it is valid UTF-8.
 * ERR_truncated, ERR_magic, ERR_version (why names both versions), ERR_toobig, ERR_syntax,
 * ERR_unsupported (a kind that this version does not know: to be passed over). */
enum err msg_decode(const void *frame, size_t n, shoal_header *out, struct why *why) MUST_CHECK;

/* May me (MSG_to_coordinator: the coordinator, MSG_to_peer: a peer) receive this kind with a second
 * frame of payload bytes (has_payload: there is one)?  ERR_permission, ERR_toobig, ERR_syntax. */
enum err msg_check(const shoal_header *header, enum msg_way me, bool has_payload, size_t payload,
	struct why *why) MUST_CHECK;

/* Headers that carry a sentence; text is cut to what fits. */
shoal_header msg_refusal(uint32_t kind, enum err code, const char *text);
shoal_header msg_bye(const char *reason);

#endif
