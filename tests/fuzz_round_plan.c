/* A plan is refused with a sentence, or is written again as the same plan, within its bounds. */
#include <stdlib.h>
#include "base/json.h"
#include "round/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct plan *p, const struct hash *run)
{
	struct plan q;
	struct why why = {0};
	if (p->n_spans > SPAN_MAX || p->seconds < 0 || p->seconds > PLAN_SECONDS_MAX || !p->round)
		abort();
	json_t *body = plan_json(p);
	if (!body || plan_parse(body, run, &q, &why))
		abort();
	json_t *again = plan_json(&q);
	if (!json_equal(body, again))
		abort();
	json_decref(again);
	json_decref(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hash run = {{1}};
	struct plan p;
	struct why why = {0};
	json_t *body;
	if (json_parse(data, size, 1 << 16, &body, &why))
		return 0;
	enum err err = plan_parse(body, &run, &p, &why);
	if (!err)
		check(&p, &run);
	else if (why.code != err || !why.text[0])
		abort();
	json_decref(body);
	return 0;
}
