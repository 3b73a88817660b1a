/* What the process says that asks the router: taken within its bounds, or not at all. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "peer/portmap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct portmap_answer none;
	char *text = alloc_must(size + 1);
	struct portmap_answer a;
	struct in_addr number;
	memcpy(text, data, size);
	text[size] = 0;
	if (!portmap_parse(text, &a)) {
		if (memcmp(&a, &none, sizeof a) != 0)
			abort();
	} else if (!a.port || inet_pton(AF_INET, a.host, &number) != 1 ||
		   !portmap_is_public(number) || strlen(a.router) >= sizeof a.router) {
		abort();
	}
	free(text);
	return 0;
}
