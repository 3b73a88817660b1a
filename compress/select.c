#include "compress/select.h"

static const struct select_row *const rows[] = {
#define X(number, name) [number] = &select_##name,
	SELECT_LIST(X)
#undef X
};

const struct select_row *select_row(uint32_t number)
{
	return number < sizeof rows / sizeof rows[0] ? rows[number] : NULL;
}
