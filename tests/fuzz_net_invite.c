/* Any text as an invite: what opens was signed by the key, and the same text comes of it again. */
#include "base/alloc.h"
#include "net/invite.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t secret[SIGN_SECRET] = "a key that is no secret at all";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sign_key *key;
	struct invite i;
	struct why why = {0};
	struct hash run = {{7}};
	char *text = alloc_must(size + 1), again[INVITE_TEXT];
	memcpy(text, data, size);
	text[size] = 0;
	if (sign_load(secret, &key))
		abort();
	struct sign_public pub = sign_public_of(key);
	enum err form = invite_form(text, &why);
	enum err e = invite_open(text, &run, &pub, 2000000000u, &i, &why);
	if (e && (why.code != e || !why.text[0]))
		abort();
	if (form && e != form)
		abort();
	if (!e) {
		invite_text(&i, &run, key, again);
		if (strcmp(text, again) != 0)
			abort();
	}
	sign_free(key);
	free(text);
	return 0;
}
