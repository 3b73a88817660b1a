#include <stdio.h>
#include "base/text.h"
#include "coordinator/human.h"
#include "coordinator/inspect.h"
#include "model/safetensors.h"

#define SHAPE_ROOM (SAFETENSORS_RANK_MAX * 22)

static void shape_of(const struct safetensors_tensor *t, char out[static SHAPE_ROOM])
{
	size_t at = 0;
	out[at++] = '[';
	for (uint32_t i = 0; i < t->rank; i++)
		at += (size_t)snprintf(out + at, SHAPE_ROOM - at, "%s%llu", i ? "," : "",
			(unsigned long long)t->dim[i]);
	snprintf(out + at, SHAPE_ROOM - at, "]");
}

enum err inspect_safetensors(const struct inspect *i, struct why *why)
{
	struct safetensors *s = NULL;
	enum err err = safetensors_open(i->path, &s, why);
	if (err)
		return err;
	uint64_t elements = 0;
	char shape[SHAPE_ROOM], a[HUMAN_TEXT];
	printf("%s\n%-44s  %-8s  %-20s  %14s\n", i->path, "tensor", "type", "shape", "elements");
	for (size_t k = 0; k < safetensors_count(s); k++) {
		const struct safetensors_tensor *t = safetensors_at(s, k);
		shape_of(t, shape);
		elements += t->count;
		char name[SAFETENSORS_NAME_MAX];
		snprintf(name, sizeof name, "%s", t->name);
		text_clean(name); /* it may come from anywhere */
		printf("%-44s  %-8s  %-20s  %14s\n", name, safetensors_type_name(t->type), shape,
			human_count(t->count, a));
	}
	printf("%zu tensors, %s elements\n", safetensors_count(s), human_count(elements, a));
	safetensors_close(s);
	return ERR_OK;
}
