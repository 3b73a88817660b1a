/* What contributions and records travel as: kinds of net/transfer.h's objects. */
#ifndef ROUND_OBJECT_H
#define ROUND_OBJECT_H

/* Numbers are on the wire: append only. */
#define OBJECT_LIST(X) \
	X(1, contribution) /* round/contribution.h; to the coordinator */ \
	X(2, record)       /* round/record.h; to a peer */

enum object_kind {
#define X(number, name) OBJECT_##name = number,
	OBJECT_LIST(X)
#undef X
};

#endif
