#include "peer/shelf.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "peer/shelf_chain.h"
#include "peer/shelf_parts.h"
#include "round/object.h"
#include "round/record.h"

#define STAGED_MOST 4096u
#define REST_HEADS 16 /* are reached before a full disk is tried again */

void shelf_warn(struct shelf *s, const struct why *why)
{
	if (why->code == ERR_full)
		s->resting = REST_HEADS;
	if (!s->failing)
		log_warn(peer, "what this peer keeps for others is not complete: %s", why->text);
	s->failing = true;
}

/* ---- opening */

enum err shelf_open(const char *dir, const struct spec *spec, struct shelf **out, struct why *why)
{
	struct shelf *s = alloc_must_zero(1, sizeof *s);
	s->spec = spec;
	s->dir = alloc_must_strdup(dir);
	s->chain.fd = -1;
	s->index = alloc_must_printf("%s/shelf/index.json", dir);
	s->roster = alloc_must_printf("%s/shelf/roster", dir);
	char *blobs = alloc_must_printf("%s/shelf/blobs", dir),
	     *chain = alloc_must_printf("%s/shelf/chain", dir);
	enum err err = file_mkdirs(blobs, 0700, why);
	if (!err)
		err = blob_open(blobs, SHELF_MOST, &s->blobs, why);
	if (!err)
		err = shelf_chain_open(chain, &s->chain, why);
	free(blobs);
	free(chain);
	if (err) {
		shelf_close(s);
		return err;
	}
	shelf_index_read(s);
	*out = s;
	return ERR_OK;
}

static void unstage(struct shelf *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(s->staged[i].entry);
	s->n_staged -= n;
	memmove(s->staged, s->staged + n, s->n_staged * sizeof *s->staged);
}

void shelf_close(struct shelf *s)
{
	if (!s)
		return;
	unstage(s, s->n_staged);
	free(s->staged);
	shelf_chain_close(&s->chain);
	blob_close(s->blobs);
	free(s->records);
	free(s->head_text);
	free(s->next_text);
	free(s->index);
	free(s->roster);
	free(s->dir);
	free(s);
}

/* ---- what comes in */

void shelf_roster(struct shelf *s, const void *text, size_t n)
{
	struct why why;
	if (file_write(s->roster, text, n, 0600, &why))
		shelf_warn(s, &why);
}

void shelf_head(struct shelf *s, const struct ledger_head *head, const void *text, size_t n)
{
	free(s->next_text);
	s->next_text = alloc_must_printf("%.*s", (int)n, (const char *)text);
	s->next = *head;
}

void shelf_taken(struct shelf *s, uint64_t end)
{
	s->taken = end > s->taken ? end : s->taken;
}

/* Where a number is staged, or would be. */
static size_t place_of(const struct shelf *s, uint64_t sequence)
{
	size_t i = s->n_staged;
	while (i && s->staged[i - 1].sequence >= sequence)
		i--;
	return i;
}

void shelf_record(struct shelf *s, const void *bytes, size_t n)
{
	struct ledger_entry e = {0};
	struct why why = {0};
	size_t used = 0;
	if (s->resting || ledger_entry_decode(bytes, n, &used, &e, &why))
		return; /* who applies it says so */
	const uint64_t sequence = e.sequence;
	ledger_entry_release(&e);
	size_t at = place_of(s, sequence);
	if (sequence <= s->chain.sequence || s->n_staged == STAGED_MOST ||
		(at < s->n_staged && s->staged[at].sequence == sequence))
		return;
	struct shelf_staged one = {.sequence = sequence, .len = used, .row = {sequence, n, {{0}}}};
	if (blob_put(s->blobs, bytes, n, &one.row.blob, &why)) {
		shelf_warn(s, &why);
		if (why.code == ERR_full)
			shelf_index_drop(s);
		return;
	}
	one.entry = alloc_must(used);
	memcpy(one.entry, bytes, used);
	s->staged = alloc_must_resize(s->staged, s->n_staged + 1, sizeof *s->staged);
	memmove(s->staged + at + 1, s->staged + at, (s->n_staged - at) * sizeof *s->staged);
	s->staged[at] = one;
	s->n_staged++;
}

/* ---- a head was reached */

/* Entries that are staged and follow, up to this number, go on the chain. */
static enum err take_staged(struct shelf *s, uint64_t to, struct why *why)
{
	enum err err = ERR_OK;
	size_t n = 0;
	for (; !err && n < s->n_staged && s->staged[n].sequence <= to; n++) {
		struct shelf_staged *one = &s->staged[n];
		if (one->sequence <= s->chain.sequence)
			continue;
		if (one->sequence != s->chain.sequence + 1)
			break;
		err = shelf_chain_add(&s->chain, one->entry, one->len, why);
		if (err)
			break;
		s->records = alloc_must_resize(s->records, s->n_records + 1, sizeof *s->records);
		s->records[s->n_records++] = one->row;
	}
	unstage(s, n);
	return err;
}

/* The entries here lead elsewhere than to what the run key signed. */
static void begin_anew(struct shelf *s, const struct why *why)
{
	struct why said;
	shelf_warn(s, why);
	unstage(s, s->n_staged);
	shelf_index_drop(s);
	if (shelf_chain_clear(&s->chain, &said))
		shelf_warn(s, &said);
}

void shelf_reached(struct shelf *s, const struct ledger_head *head)
{
	struct why why = {0};
	s->at = *head;
	if (s->resting && --s->resting) {
		unstage(s, s->n_staged);
		return;
	}
	enum err err = take_staged(s, head->sequence, &why);
	if (!err && s->chain.sequence == head->sequence && !hash_equal(&s->chain.last, &head->hash))
		err = err_why(&why, ERR_fork, "its chain leads to another entry %llu",
			(unsigned long long)head->sequence);
	if (err == ERR_full) { /* what is on the chain stays */
		shelf_warn(s, &why);
		unstage(s, s->n_staged);
		shelf_index_drop(s);
	} else if (err) {
		begin_anew(s, &why);
	}
	if (err)
		return;
	if (s->next_text && s->next.sequence <= s->chain.sequence &&
		s->next.sequence == head->sequence) {
		free(s->head_text);
		s->head_text = s->next_text;
		s->next_text = NULL;
	}
	if (head->round)
		shelf_index_snapshot(
			s, (head->round - 1) - (head->round - 1) % s->spec->round.snapshot_every);
	if (fdatasync(s->chain.fd)) {
		(void)file_why(&why, "write", "the shelf's chain", errno);
		shelf_warn(s, &why);
	}
	if (shelf_index_write(s))
		s->failing = false;
}

bool shelf_gap(const struct shelf *s, uint64_t *after)
{
	*after = s->chain.sequence;
	return !s->resting && s->at.sequence > s->chain.sequence;
}

void shelf_chain(struct shelf *s, const void *bytes, size_t n)
{
	const uint8_t *at = bytes;
	enum err err = ERR_OK;
	while (n && !err && s->chain.sequence < s->at.sequence &&
		!(s->n_staged && s->staged[0].sequence == s->chain.sequence + 1)) {
		struct ledger_entry e = {0};
		size_t used = 0;
		err = ledger_entry_decode(at, n, &used, &e, NULL);
		ledger_entry_release(&e);
		if (!err)
			err = shelf_chain_add(&s->chain, at, used, NULL);
		at += used;
		n -= used;
	}
	shelf_reached(s, &(struct ledger_head){s->at.sequence, s->at.round, s->at.hash});
}

/* ---- giving */

static enum err give_piece(
	struct shelf *s, const shoal_want *want, struct shelf_object *out, struct why *why)
{
	struct hash name;
	uint64_t size = 0;
	memcpy(name.b, want->name, sizeof name.b);
	if (!shelf_index_lists(s, &name) || blob_size(s->blobs, &name, &size) ||
		want->offset >= size)
		return err_why(why, ERR_missing, "this peer does not keep that blob");
	size_t n =
		size - want->offset < OBJECT_PIECE ? (size_t)(size - want->offset) : OBJECT_PIECE;
	char *path = blob_path(s->blobs, &name);
	uint8_t *bytes = alloc_must(n);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool whole = fd >= 0 && pread(fd, bytes, n, (off_t)want->offset) == (ssize_t)n;
	if (fd >= 0)
		close(fd);
	free(path);
	if (!whole) {
		free(bytes);
		return err_why(why, ERR_missing, "that blob cannot be read any more");
	}
	struct buf meta;
	buf_init(&meta, sizeof out->meta);
	buf_put(&meta, name.b, sizeof name.b);
	buf_put_u64(&meta, want->offset);
	buf_put_u64(&meta, size);
	memcpy(out->meta, meta.data, meta.len);
	out->meta_len = meta.len;
	buf_release(&meta);
	out->bytes = shared_new(bytes, n);
	return ERR_OK;
}

static enum err give_chain(
	struct shelf *s, const shoal_want *want, struct shelf_object *out, struct why *why)
{
	struct buf b, meta;
	size_t n;
	buf_init(&b, OBJECT_PIECE);
	enum err err = shelf_chain_read(&s->chain, want->offset, &b, why);
	if (err) {
		buf_release(&b);
		return err;
	}
	buf_init(&meta, sizeof out->meta);
	buf_put_u64(&meta, want->offset);
	memcpy(out->meta, meta.data, meta.len);
	out->meta_len = meta.len;
	buf_release(&meta);
	uint8_t *bytes = buf_steal(&b, &n);
	out->bytes = shared_new(bytes, n);
	return ERR_OK;
}

enum err shelf_give(
	struct shelf *s, const shoal_want *want, struct shelf_object *out, struct why *why)
{
	*out = (struct shelf_object){0};
	switch (want->kind) {
	case OBJECT_shelf: {
		char *text = shelf_index_text(s);
		out->bytes = shared_copy(text, strlen(text));
		free(text);
		return ERR_OK;
	}
	case OBJECT_piece: return give_piece(s, want, out, why);
	case OBJECT_chain: return give_chain(s, want, out, why);
	default:
		return err_why(
			why, ERR_unsupported, "a peer gives no objects of kind %u", want->kind);
	}
}
