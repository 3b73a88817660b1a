/* The list of what another peer keeps: taken within its bounds, or refused with a sentence. */
#include <stdlib.h>
#include "peer/take.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct hash blobs[] = {{{0}}, {{1}}};
	bool keeps[2] = {false};
	struct why why = {0};
	enum err err = take_list(data, size, blobs, 2, keeps, &why);
	if (err && (why.code != err || !why.text[0] || keeps[0] || keeps[1]))
		abort();
	return 0;
}
