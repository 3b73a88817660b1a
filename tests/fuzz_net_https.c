/* What HTTP leaves to us: a Range header against any size, and the body of a reply that tells of an
 * error.  The first byte chooses. */
#include "base/alloc.h"
#include "net/https_fault.h"
#include "net/https_range.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void range(const char *text, uint64_t size)
{
	uint64_t first = 0, end = 0;
	switch (https_range_parse(text, size, &first, &end)) {
	case HTTPS_RANGE_whole:
		if (first != 0 || end != size)
			abort();
		break;
	case HTTPS_RANGE_part:
		if (first >= end || end > size)
			abort();
		break;
	case HTTPS_RANGE_outside: break;
	}
}

static void fault(const void *body, size_t n, long status)
{
	struct https_fault f = {.detail = "", .host = "host", .port = 1};
	struct why why = {0};
	enum err e = https_fault_status(&f, status, body, n, &why);
	if (!e || why.code != e || !memchr(why.text, 0, sizeof why.text) || !why.text[0] ||
		!strcmp(err_name(e), "unknown"))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t kind;
	if (size < 1)
		return 0;
	kind = data[0];
	char *text = alloc_must(size);
	memcpy(text, data + 1, size - 1);
	text[size - 1] = 0;
	if (kind & 1)
		fault(text, size - 1, 300 + kind);
	else
		range(text, kind > 250 ? UINT64_MAX >> (kind - 250) : kind);
	free(text);
	return 0;
}
