/* A backup of a run key from anywhere: refused with a sentence, or opened.  Its settings for making
 * a key of the passphrase are made small, so that the fuzzer gets behind them at some speed. */
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "net/backup.h"

#define LOG_N_AT 10 /* base-two logarithm of scrypt's N: */
#define LEAST 10
#define MOST 20

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *bytes = alloc_must(size ? size : 1);
	struct sign_key *key;
	struct why why = {0};
	if (size)
		memcpy(bytes, data, size);
	if (size > LOG_N_AT && bytes[LOG_N_AT] > LEAST && bytes[LOG_N_AT] <= MOST)
		bytes[LOG_N_AT] = LEAST;
	enum err e = backup_open("run.backup", bytes, size, "several words", &key, &why);
	if (e && (why.code != e || !why.text[0] || key))
		abort();
	if (!e && !key)
		abort();
	sign_free(key);
	free(bytes);
	return 0;
}
