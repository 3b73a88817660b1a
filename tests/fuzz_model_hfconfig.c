/* A config.json from anywhere is read or refused with a reason; what is read gives a graph or a
 * reason, and what is written of it is read as the same model. */
#include <stdlib.h>
#include <string.h>
#include "model/graph.h"
#include "model/hfconfig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_again(const struct model_config *m)
{
	struct model_config again;
	char *text = hfconfig_print(m, SAFETENSORS_BF16);
	if (!text || hfconfig_parse("again", text, strlen(text), &again, NULL))
		abort();
	if (again.layers != m->layers || again.width != m->width || again.heads != m->heads ||
		again.context != m->context || again.vocab != m->vocab || again.tied != m->tied ||
		again.hidden != m->hidden || again.kv_heads != m->kv_heads)
		abort();
	char *same = hfconfig_retype(text, strlen(text), SAFETENSORS_BF16);
	if (!same || strcmp(same, text))
		abort();
	free(same);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct model_config m;
	struct why why = {0};
	struct graph *g = NULL;
	enum err err = hfconfig_parse("input", data, size, &m, &why);
	if (err && (!why.text[0] || why.code != err))
		abort();
	free(hfconfig_retype(data, size, SAFETENSORS_F16));
	if (err)
		return 0;
	check_again(&m);
	if (m.layers > 64)
		return 0;
	why = (struct why){0};
	if (graph_build(&m, 1, 1, &g, &why) && !why.text[0])
		abort();
	graph_free(g);
	return 0;
}
