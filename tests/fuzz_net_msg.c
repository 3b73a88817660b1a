/* Any frame: what decodes has terminated, printable texts, encodes within the limit, and decodes
 * again to the same bytes. */
#include "base/alloc.h"
#include "net/msg.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	shoal_header first, second;
	struct why why;
	if (msg_decode(data, size, &first, &why)) {
		if (!why.code || memchr(why.text, 0, sizeof why.text) == why.text ||
			first.which_body)
			abort();
		return 0;
	}
	uint8_t *one = alloc_must(MSG_HEAD_MAX), *two = alloc_must(MSG_HEAD_MAX);
	size_t n = msg_encode(&first, one);
	if (!n || n > MSG_HEAD_MAX || msg_decode(one, n, &second, &why))
		abort();
	if (msg_encode(&second, two) != n || memcmp(one, two, n) != 0)
		abort();
	bool taken = !msg_check(&first, MSG_to_peer, true, size, &why) ||
		     !msg_check(&first, MSG_to_coordinator, false, 0, &why);
	if (taken && !msg_row(first.which_body))
		abort();
	free(one);
	free(two);
	return 0;
}
