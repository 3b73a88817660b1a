#!/bin/sh
# The loops of kernels/cpu and of compress compiled for aarch64 and tested there, by emulation.  Needs a cross compiler and
# qemu's user mode (Debian: gcc-aarch64-linux-gnu qemu-user), and fails without.  Usage: check_aarch64.sh
set -eu
cd "$(dirname "$0")/.."
CROSS=${CROSS:-aarch64-linux-gnu-gcc}
QEMU=${QEMU:-qemu-aarch64}
for tool in "$CROSS" "$QEMU"; do
	command -v "$tool" >/dev/null || { echo "check-aarch64 needs $tool: apt-get install gcc-aarch64-linux-gnu qemu-user"; exit 1; }
done
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# The few words of cmocka that the test uses: the library is not there for the other processor.
cat >"$tmp/cmocka.h" <<'END'
#include <stdio.h>
#include <stdlib.h>
struct CMUnitTest { const char *name; void (*fn)(void **state); };
#define cmocka_unit_test(f) { #f, f }
#define fail_msg(...) (printf(__VA_ARGS__), puts(""), exit(1))
#define assert_true(c) ((c) ? (void)0 : fail_msg("%s:%d: %s", __FILE__, __LINE__, #c))
#define cmocka_run_group_tests(tests, before, after) run_all(tests, sizeof(tests) / sizeof *(tests), before)
static int run_all(const struct CMUnitTest *t, size_t n, int (*before)(void **state))
{
	if (before)
		before(NULL);
	for (size_t i = 0; i < n; i++, t++)
		t->fn(NULL), printf("  %s: ok\n", t->name);
	return 0;
}
END
"$CROSS" -std=c11 -D_GNU_SOURCE -O3 -ffp-contract=fast -fno-strict-aliasing -static -I. -I"$tmp" -o "$tmp/test" \
	kernels/cpu/vec*.c tests/test_kernels_cpu_vec.c -lm
"$QEMU" "$tmp/test"
for t in select dct; do
	"$CROSS" -std=c11 -D_GNU_SOURCE -O2 -ffp-contract=off -fno-strict-aliasing -static -I. -I"$tmp" -o "$tmp/test" \
		compress/select*.c compress/topk*.c compress/dct.c compress/floats.c base/rng.c tests/test_compress_$t.c -lm
	"$QEMU" "$tmp/test"
done
# Every codec writes the same planes there and here.
cat >"$tmp/planes.c" <<'END'
#include <stdio.h>
#include "tests/help_compress.h"
int main(void)
{
	struct codec_params p;
	float *v = help_compress_vector(HELP_COMPRESS_heavy, 50000, 77);
	for (size_t i = 0; help_compress_params(i, &p); i++) {
		struct planes to;
		char name[CODEC_NAME_MAX];
		planes_init(&to, codec_bound(&p, 50000));
		uint64_t sum = 0xcbf29ce484222325u; // FNV-1a
		if (codec_encode(&p, v, 50000, NULL, &to, NULL))
			return 1;
		for (size_t b = 0; b < to.bytes.len; b++)
			sum = (sum ^ to.bytes.data[b]) * 0x100000001b3u;
		codec_describe(&p, name);
		printf("%016llx %s\n", (unsigned long long)sum, name);
		planes_release(&to);
	}
	return 0;
}
END
cat >>"$tmp/cmocka.h" <<'END'
#define print_error(...) fprintf(stderr, __VA_ARGS__)
#define assert_int_equal(a, b) assert_true((a) == (b))
#define assert_non_null(p) assert_true(p)
END
planes() { # planes COMPILER NAME
	"$1" -std=c11 -D_GNU_SOURCE -O3 -ffp-contract=off -fno-strict-aliasing -static -I. -I"$tmp" -o "$tmp/$2" "$tmp/planes.c" \
		tests/help_compress.c $(ls compress/*.c | grep -v frame.c) base/alloc.c base/buf.c base/err.c base/pool.c base/rd.c base/rng.c base/text.c \
		-lm -pthread
}
planes "$CROSS" there
planes "${CC:-gcc}" here
"$QEMU" "$tmp/there" >"$tmp/there.out"
"$tmp/here" >"$tmp/here.out"
cmp "$tmp/there.out" "$tmp/here.out"
echo "  $(wc -l <"$tmp/here.out") codecs: the same planes"
echo "check_aarch64: passed"
