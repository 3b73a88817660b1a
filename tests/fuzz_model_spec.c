/* A spec from anywhere is read or refused with a reason; what is read reads again as the same. */
#include <stdlib.h>
#include <string.h>
#include "model/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct spec *s = NULL, *again = NULL;
	struct buf mistakes;
	struct why why = {0};
	buf_init(&mistakes, SPEC_MISTAKES_MAX);
	enum err err = spec_parse(data, size, &s, &mistakes, &why);
	if (err && (!why.text[0] || s))
		abort();
	if (!err) {
		if (spec_parse(s->text, strlen(s->text), &again, NULL, &why) ||
			!hash_equal(&s->id, &again->id))
			abort();
		for (uint64_t t = 1; t; t <<= 1)
			if (!(spec_lr(&s->train, t) >= 0 && spec_lr(&s->train, t) <= s->train.lr))
				abort();
		size_t before = mistakes.len;
		spec_diff(s, again, &mistakes);
		if (mistakes.len != before || before)
			abort();
	}
	spec_free(again);
	spec_free(s);
	buf_release(&mistakes);
	return 0;
}
