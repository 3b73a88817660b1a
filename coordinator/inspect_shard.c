#include <math.h>
#include <stdio.h>
#include "coordinator/human.h"
#include "coordinator/inspect.h"
#include "model/checkpoint.h"

struct spread {
	double sum, squares, least, most;
	uint64_t n, broken; /* broken: NaN or infinite, in no sum */
};

static struct spread measure(const float *v, uint64_t n)
{
	struct spread s = {.least = INFINITY, .most = -INFINITY};
	for (uint64_t i = 0; i < n; i++) {
		double x = (double)v[i];
		if (!isfinite(x)) {
			s.broken++;
			continue;
		}
		s.n++;
		s.sum += x;
		s.squares += x * x;
		s.least = fmin(s.least, x);
		s.most = fmax(s.most, x);
	}
	return s;
}

static void show(const struct checkpoint *c, const struct tensor *t)
{
	char shape[SHAPE_TEXT], offset[HUMAN_TEXT];
	shape_text(&t->shape, shape);
	struct spread s = measure(c->shards[t->shard] + t->offset, shape_count(&t->shape));
	double mean = s.n ? s.sum / (double)s.n : 0;
	double variance = s.n ? fmax(s.squares / (double)s.n - mean * mean, 0) : 0;
	printf("%5u  %14s  %-28s  %-16s", t->shard, human_count(t->offset, offset), t->name, shape);
	if (s.n)
		printf("  %11.3e  %10.3e  %11.3e  %11.3e", mean, sqrt(variance), s.least, s.most);
	if (s.broken)
		printf("  %llu not finite", (unsigned long long)s.broken);
	putchar('\n');
}

static void show_all(const struct checkpoint *c)
{
	printf("%s\n%5s  %14s  %-28s  %-16s  %11s  %10s  %11s  %11s\n", c->path, "shard",
		"first element", "parameter", "shape", "mean", "deviation", "least", "most");
	for (uint32_t k = 0; k < c->graph->n_shards; k++)
		for (uint32_t i = 0; i < c->graph->n_tensors; i++) {
			const struct tensor *t = &c->graph->tensors[i];
			if (t->role == TENSOR_param && t->shard == k)
				show(c, t);
		}
}

enum err inspect_shard(const struct inspect *i, struct why *why)
{
	struct checkpoint c;
	enum err err = checkpoint_open(i->path, &c, NULL, why);
	if (!err)
		show_all(&c);
	checkpoint_close(&c);
	return err;
}
