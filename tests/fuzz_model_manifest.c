/* A manifest from anywhere is read or refused with a reason; what is read adds up, and reads again
 * as the same. */
#include <stdlib.h>
#include <string.h>
#include "model/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_split(const struct manifest_split *s)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < s->n_shards; i++)
		sum += s->shards[i].tokens;
	if (sum != s->tokens || s->text_bytes < sum || s->n_shards > MANIFEST_SHARDS_MAX)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct manifest *m = NULL, *again = NULL;
	struct why why = {0};
	enum err err = manifest_parse(data, size, &m, &why);
	if (err && (!why.text[0] || why.code != err || m))
		abort();
	if (err)
		return 0;
	check_split(&m->train);
	check_split(&m->validation);
	if (m->train.n_shards == 0 || manifest_parse(m->text, strlen(m->text), &again, NULL) ||
		!hash_equal(&m->id, &again->id) || strcmp(m->text, again->text) != 0)
		abort();
	manifest_free(again);
	manifest_free(m);
	return 0;
}
