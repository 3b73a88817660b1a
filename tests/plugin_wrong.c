/* A plug-in of another version, which must be refused (test_kernels_product.c). */
#include "kernels/cpu/provider.h"

provider_fn shoal_provider;

const struct provider *shoal_provider(void)
{
	static const struct provider other = {.abi = PROVIDER_ABI + 1, .size = sizeof other};
	return &other;
}
