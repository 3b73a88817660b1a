/* Any script of messages against a sender and a receiver: no more memory than the budget, no byte
 * that was not granted, nothing delivered that does not match its hash, nothing delivered twice
 * unless it was answered in between: then it may be pushed anew. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "net/transfer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHUNK TRANSFER_CHUNK_LEAST
#define SIZE (3 * CHUNK + 5)
#define SEEN 64

struct world {
	struct transfer_limits limits;
	struct transfer_kind kind;
	struct transfer_budget budget;
	struct transfer_tx *tx;
	struct transfer_rx *rx;
	struct shared *object;
	uint64_t now_ns, ref, granted; // granted: by the credits that we gave the sender, and eager
	uint64_t seen[SEEN];
	bool answered[SEEN];
	size_t n_seen;
};

static void must(bool good)
{
	if (!good)
		abort();
}

static void on_received(struct world *w, struct transfer_event *e)
{
	struct hash h = hash_of(e->bytes, (size_t)e->size);
	must(hash_equal(&h, &e->name) && e->size <= w->kind.size_most);
	for (size_t i = 0; i < w->n_seen; i++) // fewer objects than a receiver remembers
		must(w->seen[i] != e->ref || w->answered[i]);
	if (w->n_seen < TRANSFER_KEPT)
		w->seen[w->n_seen++] = e->ref;
	free(e->bytes);
}

static void to_receiver(struct world *w, const shoal_header *h, const uint8_t *payload, size_t n)
{
	struct transfer_event e;
	struct transfer_in in = {h, payload, n};
	bool got = false;
	if (w->n_seen == TRANSFER_KEPT)
		return;
	(void)!transfer_rx_take(w->rx, &in, w->now_ns, &e, &got);
	if (got)
		on_received(w, &e);
	must(w->budget.used <= w->budget.most);
}

/* What the sender says goes to the receiver when pass is set, else it is lost. */
static void pump_sender(struct world *w, bool pass)
{
	struct transfer_out out;
	for (int i = 0; i < 8 && transfer_tx_next(w->tx, w->now_ns, &out); i++) {
		if (out.bytes)
			must(out.offset + out.len <= shared_len(out.bytes) &&
				out.offset + out.len <= w->granted);
		if (pass)
			to_receiver(w, &out.header,
				out.bytes ? shared_data(out.bytes) + out.offset : NULL, out.len);
	}
}

static void to_sender(struct world *w, const shoal_header *h)
{
	struct transfer_event e;
	if (h->which_body == MSG_credit && h->body.credit.upto > w->granted)
		w->granted = h->body.credit.upto;
	if (transfer_tx_take(w->tx, h, w->now_ns, &e))
		must(e.what != TRANSFER_received && e.bytes == NULL);
}

static void pump_receiver(struct world *w, bool pass)
{
	struct transfer_out out;
	for (int i = 0; i < 8 && transfer_rx_next(w->rx, w->now_ns, &out); i++) {
		if (out.header.which_body == MSG_credit)
			must(out.header.body.credit.have <= out.header.body.credit.upto &&
				out.header.body.credit.upto <= w->kind.size_most);
		if (pass)
			to_sender(w, &out.header);
	}
}

/* A message of the script: an encoded header of at most 255 bytes, and zeros as payload. */
static void forged(struct world *w, struct rd *r, bool receiver)
{
	static const uint8_t zeros[CHUNK];
	uint8_t frame[MSG_PREAMBLE + 255] = {'S', 'H', 'O', 'L', MSG_MAJOR};
	size_t len = rd_u8(r), payload = rd_u16(r) % (CHUNK + 1);
	const uint8_t *header = rd_bytes(r, len);
	shoal_header h;
	struct why why;
	if (!header)
		return;
	memcpy(frame + MSG_PREAMBLE, header, len);
	if (msg_decode(frame, MSG_PREAMBLE + len, &h, &why))
		return;
	if (receiver)
		to_receiver(w, &h, zeros, h.which_body == MSG_chunk ? payload : 0);
	else
		to_sender(w, &h);
}

static void restart(struct world *w, uint32_t eager)
{
	transfer_tx_restart(w->tx, eager);
	if (eager > w->granted)
		w->granted = eager;
}

static void step(struct world *w, struct rd *r)
{
	uint8_t op = rd_u8(r);
	switch (op % 10) {
	case 0: forged(w, r, true); break;
	case 1: forged(w, r, false); break;
	case 2: pump_sender(w, true); break;
	case 3: pump_receiver(w, true); break;
	case 4: pump_sender(w, false); break;
	case 5: pump_receiver(w, false); break;
	case 6: w->now_ns += (uint64_t)rd_u8(r) * CLOCK_SECOND; break;
	case 7: restart(w, op > 127 ? w->limits.eager : 0); break;
	case 8:
		if (w->n_seen) {
			size_t which = rd_u8(r) % w->n_seen;
			for (size_t i = 0; i < w->n_seen; i++)
				w->answered[i] |= w->seen[i] == w->seen[which];
			transfer_rx_answer(
				w->rx, w->seen[which], op > 127 ? ERR_norm : ERR_OK, NULL);
		}
		break;
	default:
		if (op > 127)
			transfer_tx_cancel(w->tx, w->ref);
		else
			transfer_tx_push(w->tx, 1, w->object, &op, 1);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct world w = {.kind = {1, 4 * CHUNK}, .budget = {0, 6 * CHUNK}, .now_ns = 1};
	struct rd r;
	transfer_limits_init(&w.limits);
	w.limits.chunk = CHUNK;
	w.limits.objects = 4;
	w.tx = transfer_tx_new(&w.limits);
	w.rx = transfer_rx_new(&w.limits, &w.kind, 1, &w.budget);
	uint8_t *bytes = alloc_must_zero(1, SIZE);
	memset(bytes, 0x5a, SIZE);
	w.object = shared_new(bytes, SIZE);
	w.ref = transfer_tx_push(w.tx, 1, w.object, NULL, 0);
	rd_init(&r, data, size);
	while (rd_left(&r) && rd_ok(&r))
		step(&w, &r);
	transfer_tx_free(w.tx);
	transfer_rx_free(w.rx);
	must(w.budget.used == 0);
	shared_drop(w.object);
	return 0;
}
