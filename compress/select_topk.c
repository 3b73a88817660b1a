#include "compress/floats.h"
#include "compress/select.h"
#include "compress/topk.h"

static uint32_t choose(const struct select_from *from, uint16_t *place)
{
	return topk_select(from->v, from->len, from->k, FLOATS_NORMAL, place);
}

const struct select_row select_topk = {
	.name = "topk",
	.sends_places = true,
	.takes_k = true,
	.choose = choose,
};
