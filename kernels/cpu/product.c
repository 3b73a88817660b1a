#include "kernels/cpu/product.h"
#include <stdio.h>
#include "kernels/cpu/blas.h"
#include "kernels/cpu/plugin.h"
#include "kernels/cpu/provider.h"

/* Below so many multiplications what a plug-in spends to find its kernel is felt: blocks of
 * attention are CBLAS's. */
#define PLUGIN_LEAST (1u << 20)

void product_open(struct products *p, const char *plugin, unsigned threads)
{
	*p = (struct products){0};
	blas_prepare();
	p->plugin = plugin_load(plugin, p->without, sizeof p->without);
	if (!p->plugin)
		return;
	p->library = p->plugin->open(threads, p->without, sizeof p->without);
	if (!p->library) {
		p->plugin = NULL;
		return;
	}
	p->has_bf16 = p->plugin->has_bf16(p->library);
	char wrong[sizeof p->without];
	if (!plugin_check(p->plugin, p->library, wrong, sizeof wrong))
		product_drop_plugin(p, wrong);
}

void product_close(struct products *p)
{
	if (p->plugin)
		p->plugin->close(p->library);
	*p = (struct products){0};
}

void product_drop_plugin(struct products *p, const char *without)
{
	product_close(p);
	snprintf(p->without, sizeof p->without, "%s", without);
}

void product_describe(const struct products *p, char *out, size_t size)
{
	if (p->plugin) {
		p->plugin->describe(p->library, out, size);
		return;
	}
	char blas[64];
	blas_describe(blas, sizeof blas);
	snprintf(out, size, "%s (%s)", blas, p->without);
}

void product_run(const struct products *p, unsigned thread, const struct product *product)
{
	uint64_t size = product->m * product->n * product->k;
	if (p->plugin && product->alpha == 1 && size >= PLUGIN_LEAST)
		p->plugin->product(p->library, thread, product);
	else
		blas_product(product);
}
