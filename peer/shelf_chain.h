/* The ledger's entries in one file, appended to; what a crash cut short is cut off. */
#ifndef PEER_SHELF_CHAIN_H
#define PEER_SHELF_CHAIN_H
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "round/ledger.h"

struct shelf_chain {
	int fd;
	uint64_t sequence; /* of the last entry; 0: there is none */
	struct hash last;  /* its hash */
	uint64_t end;      /* bytes */
};

enum err shelf_chain_open(const char *path, struct shelf_chain *c, struct why *why) MUST_CHECK;
void shelf_chain_close(struct shelf_chain *c);
/* Encoded entries that follow, not yet safe from a power cut: ERR_fork, changing nothing, when the
 * first one does not follow. */
enum err shelf_chain_add(
	struct shelf_chain *c, const void *entry, size_t n, struct why *why) MUST_CHECK;
enum err shelf_chain_clear(struct shelf_chain *c, struct why *why) MUST_CHECK;
/* Appends the entries after this number, as many as out has room for. */
enum err shelf_chain_read(
	const struct shelf_chain *c, uint64_t after, struct buf *out, struct why *why) MUST_CHECK;

#endif
