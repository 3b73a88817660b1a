/* Any text as a signed document: nothing that the key did not sign opens, and a body that the input
 * brings can be signed and opens again as it was. */
#include "net/signed.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t secret[SIGN_SECRET] = "a key that is no secret at all";

static void round_trip(const json_t *body, const struct sign_key *key)
{
	struct sign_public pub = sign_public_of(key);
	json_t *back;
	char *text = signed_make("fuzz", body, key);
	if (signed_open(text, strlen(text), "fuzz", pub.b, &back, NULL) || !json_equal(body, back))
		abort();
	json_decref(back);
	if (!signed_open(text, strlen(text), "other", pub.b, &back, NULL) || back)
		abort();
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sign_key *key;
	json_t *body;
	struct why why = {0};
	if (sign_load(secret, &key))
		abort();
	struct sign_public pub = sign_public_of(key);
	if (!signed_open(data, size, "fuzz", pub.b, &body, &why))
		json_decref(body); /* only the corpus has one that this key signed */
	else if (body || !why.code || !why.text[0])
		abort();
	if (!json_parse(data, size, 1 << 16, &body, NULL)) {
		if (json_is_object(body))
			round_trip(body, key);
		json_decref(body);
	}
	sign_free(key);
	return 0;
}
