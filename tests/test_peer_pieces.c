/* A blob in pieces: only the right ones count, and what is there is gone on with. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/file.h"
#include "peer/pieces.h"
#include "peer/take.h"
#include "round/object.h"
#include "tests/help_peer.h"

#define N 3
#define TAIL 1000
#define SIZE ((uint64_t)(N - 1) * OBJECT_PIECE + TAIL)

struct blob {
	uint8_t *bytes;
	struct hash hashes[N];
};

static struct blob make(uint32_t seed)
{
	struct blob b = {.bytes = malloc(SIZE)};
	assert_non_null(b.bytes);
	for (uint64_t i = 0; i < SIZE; i++) {
		seed = seed * 1103515245u + 12345u;
		b.bytes[i] = (uint8_t)(seed >> 16);
	}
	for (size_t i = 0; i < N; i++)
		b.hashes[i] = hash_of(
			b.bytes + i * OBJECT_PIECE, i + 1 < N ? OBJECT_PIECE : (size_t)TAIL);
	return b;
}

static struct pieces *open_at(const char *path, const struct blob *b)
{
	struct pieces *p = NULL;
	struct why why = {0};
	help_peer_fine(pieces_open(path, SIZE, b->hashes, &p, &why), &why);
	return p;
}

static enum err put(struct pieces *p, const struct blob *b, size_t i, struct why *why)
{
	return pieces_put(p, i, b->bytes + i * OBJECT_PIECE, (size_t)pieces_bytes(p, i), why);
}

static void only_the_right_ones_count(void **state)
{
	(void)state;
	struct blob b = make(1), other = make(2);
	struct why why = {0};
	struct pieces *p = open_at(help_peer_path("a"), &b);
	assert_int_equal(pieces_count(p), N);
	assert_int_equal(pieces_bytes(p, N - 1), TAIL);
	assert_int_equal(pieces_have(p), 0);
	assert_int_equal(put(p, &other, 1, &why), ERR_hash);
	assert_non_null(strstr(why.text, "piece 2 of 3"));
	assert_int_equal(pieces_put(p, 1, b.bytes, TAIL, &why), ERR_shape);
	assert_false(pieces_here(p, 1));
	for (size_t i = N; i-- > 0;) /* in any order */
		help_peer_fine(put(p, &b, i, &why), &why);
	assert_int_equal(pieces_have(p), SIZE);
	pieces_close(p);
	uint8_t *bytes = NULL;
	size_t n = 0;
	help_peer_fine(file_read(help_peer_path("a"), SIZE, &bytes, &n, &why), &why);
	assert_int_equal(n, SIZE);
	assert_memory_equal(bytes, b.bytes, SIZE);
	free(bytes);
	free(b.bytes);
	free(other.bytes);
}

static void what_is_there_is_gone_on_with(void **state)
{
	(void)state;
	struct blob b = make(1), next = make(2);
	struct why why = {0};
	const char *path = help_peer_path("a");
	struct pieces *p = open_at(path, &b);
	help_peer_fine(put(p, &b, 0, &why), &why);
	help_peer_fine(put(p, &b, 2, &why), &why);
	pieces_close(p);
	p = open_at(path, &b);
	assert_true(pieces_here(p, 0) && !pieces_here(p, 1) && pieces_here(p, 2));
	assert_int_equal(pieces_have(p), OBJECT_PIECE + TAIL);
	pieces_close(p);

	/* damaged meanwhile */
	int fd = open(path, O_WRONLY);
	assert_int_equal(pwrite(fd, "x", 1, 77), 1);
	close(fd);
	p = open_at(path, &b);
	assert_false(pieces_here(p, 0));
	assert_true(pieces_here(p, 2));
	pieces_close(p);

	/* the target moves on: what the two have in common stays */
	next.hashes[2] = b.hashes[2];
	p = open_at(path, &next);
	assert_true(!pieces_here(p, 0) && !pieces_here(p, 1) && pieces_here(p, 2));
	pieces_close(p);
	free(b.bytes);
	free(next.bytes);
}

static void a_list_names_what_is_kept(void **state)
{
	(void)state;
	const struct hash blobs[] = {{{1}}, {{2}}, {{3}}};
	bool keeps[3] = {false};
	struct why why;
	char a[HASH_HEX], c[HASH_HEX], text[512];
	hash_hex(&blobs[0], a);
	hash_hex(&blobs[2], c);
	int n = snprintf(text, sizeof text,
		"{\"snapshots\":[{\"blob\":\"%s\"},{\"blob\":3},7],\"records\":[{\"blob\":\"%s\"},"
		"{\"blob\":\"zz\"}],\"head\":\"\"}",
		c, a);
	help_peer_fine(take_list(text, (size_t)n, blobs, 3, keeps, &why), &why);
	assert_true(keeps[0] && !keeps[1] && keeps[2]);
	assert_int_equal(take_list("{]", 2, blobs, 3, keeps, &why), ERR_syntax);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, help_peer_setup, help_peer_teardown)
	const struct CMUnitTest tests[] = {
		T(only_the_right_ones_count),
		T(what_is_there_is_gone_on_with),
		T(a_list_names_what_is_kept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
