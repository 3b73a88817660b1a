/* A key file from anywhere, also with its check sum made right (no fuzzer would find it): it is
 * refused with a sentence and leaves what was there, or it is exactly what is written for the
 * secret that it gives. */
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/hash.h"
#include "net/keyfile.h"

#define SUM 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_it(const uint8_t *bytes, size_t size)
{
	static const struct keyfile_expected kinds[] = {{"run.key", KEYFILE_run, 32},
		{"curve.key", KEYFILE_curve, 64}, {"peer.key", KEYFILE_peer, 96},
		{"starts", KEYFILE_starts, 8}};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		uint8_t secret[96], untouched[96];
		struct why why = {0};
		memset(secret, 0xa5, sizeof secret);
		memset(untouched, 0xa5, sizeof untouched);
		enum err e = keyfile_parse(&kinds[i], bytes, size, secret, &why);
		if (e && (why.code != e || !why.text[0] ||
				 memcmp(secret, untouched, sizeof secret) != 0))
			abort();
		if (!e && (size != 16 + kinds[i].n + SUM ||
				  memcmp(secret, bytes + 16, kinds[i].n) != 0))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *bytes = alloc_must(size + SUM);
	read_it(data, size);
	if (size)
		memcpy(bytes, data, size);
	struct hash sum = hash_of(bytes, size);
	memcpy(bytes + size, sum.b, SUM);
	read_it(bytes, size + SUM);
	free(bytes);
	return 0;
}
