/* What a user calls a proxy: taken as host and port without its password, or refused with a
 * sentence that shows nothing of what stands before the last @. */
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "net/proxy.h"

#define SHOWN_LEAST 16 /* bytes; what is shorter may stand in any sentence */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Between the scheme and the last @. */
static void check_secret(const char *text, const char *sentence)
{
	const char *at = strrchr(text, '@'), *from = strstr(text, "://");
	from = from && from < at ? from + 3 : text;
	if (!at || at - from < SHOWN_LEAST)
		return;
	char *secret = alloc_must_printf("%.*s", (int)(at - from), from);
	if (strstr(sentence, secret) && !strstr(at + 1, secret))
		abort();
	free(secret);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = alloc_must(size + 1);
	struct proxy p;
	struct why why = {0};
	memcpy(text, data, size);
	text[size] = 0;
	enum err err = proxy_parse(text, &p, &why);
	if (err && (why.code != err || !why.text[0]))
		abort();
	if (!err && (strchr(p.shown, '@') || !strstr(p.shown, "://") ||
			    strlen(p.user) >= sizeof p.user))
		abort();
	if (err)
		check_secret(text, why.text);
	free(text);
	return 0;
}
