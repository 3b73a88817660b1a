#include "kernels/cpu/plugin.h"
#include "kernels/cpu/plugin_file.h"
#include <dlfcn.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "model/half.h"

const char *plugin_find(char *out, size_t size)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	if (n <= 0)
		return NULL;
	self[n] = 0;
	char *name = strrchr(self, '/');
	if (!name)
		return NULL;
	*name = 0;
	static const char *const from[] = {"", "/.."};
	for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
		int length = snprintf(out, size, "%s%s/" PLUGIN_FILE, self, from[i]);
		if (length > 0 && (size_t)length < size && access(out, R_OK) == 0)
			return out;
	}
	return NULL;
}

const struct provider *plugin_load(const char *path, char *why, size_t size)
{
	if (!path) {
		snprintf(why, size, "no " PLUGIN_FILE);
		return NULL;
	}
	if (!plugin_file_check(path, why, size))
		return NULL;
	/* Never closed: its library keeps data of threads that may outlive the device. */
	void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	provider_fn *table = NULL;
	if (file)
		*(void **)&table = dlsym(file, PROVIDER_SYMBOL);
	if (!table) {
		snprintf(why, size, "%s", dlerror());
		return NULL;
	}
	const struct provider *p = table();
	if (p->abi != PROVIDER_ABI || p->size != sizeof *p) {
		snprintf(why, size,
			"%s is of another version (ABI %u, table of %u bytes; needed %u, %zu): "
			"install it anew",
			strrchr(path, '/') + 1, p->abi, p->size, PROVIDER_ABI, sizeof *p);
		return NULL;
	}
	return p;
}

/* ---- trying it */

/* Neither whole registers nor whole blocks. */
enum { M = 37, N = 70, K = 67 };

struct trial {
	const struct provider *p;
	struct library *l;
	float a[M * K], b[K * N]; /* with values that bfloat16 holds exactly */
	uint16_t a16[M * K], b16[K * N];
	float c[M * N];
};

static void make_up(float *x, uint16_t *x16, size_t n, unsigned step)
{
	for (size_t i = 0; i < n; i++) {
		x[i] = (float)((i * step + i / 7) % 31) / 8 - 2;
		x16[i] = half_to_bf16(x[i]);
	}
}

/* Whether c is (before +) a b; a_turned: a lies as [K,M]. */
static bool right(const struct trial *t, bool a_turned, bool b_turned, float before)
{
	for (size_t i = 0; i < M; i++)
		for (size_t j = 0; j < N; j++) {
			double sum = (double)before;
			for (size_t k = 0; k < K; k++)
				sum += (double)t->a[a_turned ? k * M + i : i * K + k] *
				       (double)t->b[b_turned ? j * K + k : k * N + j];
			/* So written that NaN is wrong. */
			if (!(fabs((double)t->c[i * N + j] - sum) <= 1e-3))
				return false;
		}
	return true;
}

static bool try_float32(struct trial *t)
{
	for (int form = 0; form < 8; form++) {
		bool a_turned = form & 1, b_turned = form & 2, add = form & 4;
		for (size_t i = 0; i < M * N; i++)
			t->c[i] = add ? 5 : NAN;
		t->p->product(t->l, 0,
			&(struct product){.m = M,
				.n = N,
				.k = K,
				.a = {t->a, a_turned ? M : K, a_turned},
				.b = {t->b, b_turned ? K : N, b_turned},
				.alpha = 1,
				.c = t->c,
				.c_step = N,
				.add = add});
		if (!right(t, a_turned, b_turned, add ? 5 : 0))
			return false;
	}
	return true;
}

static bool try_bf16(struct trial *t)
{
	uint16_t packed[128 * 128], turned[M * K];
	for (int form = 0; form < 4; form++) {
		bool a_turned = form & 1, b_turned = form & 2;
		const uint16_t *a = t->a16;
		if (a_turned) {
			const struct half_matrix from = {t->a16, M, false};
			t->p->turn(t->l, 0, &from, K, M, turned);
			a = turned;
		}
		const struct half_matrix b = {t->b16, b_turned ? K : N, b_turned};
		t->p->pack(t->l, 0, &b, K, N, packed);
		for (size_t i = 0; i < M * N; i++)
			t->c[i] = NAN;
		t->p->half_product(t->l, 0,
			&(struct half_product){.m = M,
				.n = N,
				.k = K,
				.a = a,
				.a_step = K,
				.b = packed,
				.c = t->c});
		if (!right(t, a_turned, b_turned, 0))
			return false;
	}
	return true;
}

bool plugin_check(const struct provider *p, struct library *l, char *why, size_t size)
{
	struct trial t = {.p = p, .l = l};
	make_up(t.a, t.a16, M * K, 5);
	make_up(t.b, t.b16, K * N, 11);
	bool fits = try_float32(&t), half_fits = fits && (!p->has_bf16(l) || try_bf16(&t));
	if (!half_fits) {
		char name[80];
		p->describe(l, name, sizeof name);
		snprintf(why, size, "%s computes wrongly in %s", name, fits ? "bf16" : "float32");
	}
	return half_fits;
}
