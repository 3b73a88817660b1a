#include "kernels/backend.h"
#include <string.h>

static const struct backend *const list[] = {
#define X(name) &name##_backend,
	BACKEND_LIST(X)
#undef X
};

const struct backend *backend_at(size_t i)
{
	return i < sizeof list / sizeof *list ? list[i] : NULL;
}

const struct backend *backend_find(const char *name)
{
	for (size_t i = 0; backend_at(i); i++)
		if (!strcmp(list[i]->name, name))
			return list[i];
	return NULL;
}
