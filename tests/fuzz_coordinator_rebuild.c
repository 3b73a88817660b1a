/* The list of what a peer keeps: refused with a sentence, or within its bounds.  No list here is
 * signed, so what is in it is parsed and then refused for its head. */
#include <stdlib.h>
#include "coordinator/rebuild_parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct hash run = {{1}};
	const struct sign_public key = {{2}};
	struct rebuild_list l;
	struct why why = {0};
	enum err err = rebuild_list_parse(data, size, &run, &key, &l, &why);
	if (!err || why.code != err || !why.text[0] || l.records || l.n_records)
		abort();
	return 0;
}
