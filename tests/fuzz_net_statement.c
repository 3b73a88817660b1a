/* Any document as a statement: one that opens is for the run and by the key that were expected, and
 * is written as a statement that opens again. */
#include "net/signed.h"
#include "net/statement.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t secret[SIGN_SECRET] = "a key that is no secret at all";

static void open_it(const void *text, size_t n, const struct sign_key *key)
{
	struct statement expected = {.run = {{7}}, .key = sign_public_of(key)}, out, again;
	struct why why = {0};
	enum err e = statement_open(text, n, &expected, 2000000000u, &out, &why);
	if (e && (why.code != e || !why.text[0]))
		abort();
	if (e)
		return;
	char *written = statement_make(&out, key);
	if (!hash_equal(&out.run, &expected.run) ||
		statement_open(written, strlen(written), &expected, 2000000000u, &again, &why) ||
		memcmp(&out, &again, sizeof out) != 0)
		abort();
	free(written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sign_key *key;
	json_t *body;
	if (sign_load(secret, &key))
		abort();
	open_it(data, size, key);
	// The body alone, signed here, so that the fuzzer gets behind the signature.
	if (!json_parse(data, size, STATEMENT_MAX, &body, NULL)) {
		char *text = json_is_object(body) ? signed_make("statement", body, key) : NULL;
		if (text)
			open_it(text, strlen(text), key);
		free(text);
		json_decref(body);
	}
	sign_free(key);
	return 0;
}
