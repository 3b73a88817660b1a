#include "net/signed.h"
#include "base/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PURPOSE_MAX (SIGNED_TYPE_MAX + 16)

static void purpose_of(const char *type, char out[static PURPOSE_MAX])
{
	snprintf(out, PURPOSE_MAX, "shoal %.*s 1", SIGNED_TYPE_MAX, type);
}

/* Documents of our own: small, and nothing can be done without them. */
static char *must(char *text)
{
	if (!text) {
		fprintf(stderr, "out of memory: a document cannot be signed\n");
		abort();
	}
	return text;
}

char *signed_make(const char *type, const json_t *body, const struct sign_key *key)
{
	char purpose[PURPOSE_MAX], hex[2 * SIGN_BYTES + 1];
	uint8_t signature[SIGN_BYTES];
	char *text = must(json_canonical(body));
	purpose_of(type, purpose);
	sign_bytes(key, purpose, text, strlen(text), signature);
	free(text);
	text_hex(signature, sizeof signature, hex);
	json_t *doc = json_pack("{s:O, s:s, s:s}", "body", body, "signature", hex, "type", type);
	char *out = must(json_canonical(doc));
	json_decref(doc);
	return out;
}

static enum err check(
	const json_t *doc, const char *type, const uint8_t key[static SIGN_PUBLIC], struct why *why)
{
	const json_t *body = json_object_get(doc, "body");
	const char *is = json_string_value(json_object_get(doc, "type"));
	const char *hex = json_string_value(json_object_get(doc, "signature"));
	uint8_t signature[SIGN_BYTES];
	char purpose[PURPOSE_MAX];
	if (!json_is_object(body) || !is || !hex || text_unhex(hex, signature, sizeof signature))
		return err_why(why, ERR_syntax,
			"not a signed document: it needs body, type and signature");
	if (strcmp(is, type))
		return err_why(why, ERR_magic,
			"a signed document of type \"%.24s\" where \"%s\" was expected", is, type);
	char *text = json_canonical(body);
	if (!text)
		return err_why(why, ERR_nomem, "out of memory");
	purpose_of(type, purpose);
	enum err e = sign_verify(key, purpose, text, strlen(text), signature);
	free(text);
	return e ? err_why(why, e,
			   "the signature of the %s document is not that of the key it must be "
			   "signed by",
			   type)
		 : ERR_OK;
}

enum err signed_open(const void *text, size_t n, const char *type,
	const uint8_t key[static SIGN_PUBLIC], json_t **body, struct why *why)
{
	json_t *doc = NULL;
	enum err e = json_parse(text, n, SIGNED_MAX, &doc, why);
	if (!e)
		e = check(doc, type, key, why);
	*body = e ? NULL : json_incref(json_object_get(doc, "body"));
	json_decref(doc);
	return e;
}
