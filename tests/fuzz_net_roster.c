/* Any body as a roster: what is taken has unique members with printable names, all of them found,
 * and is written as the same again. */
#include "net/roster.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_members(const struct roster *r)
{
	for (size_t i = 0; i < roster_count(r); i++) {
		const struct roster_member *m = roster_at(r, i);
		if (roster_by_number(r, m->number) != m || roster_by_curve(r, m->curve) != m ||
			roster_by_sign(r, m->sign.b) != m || !roster_name_ok(m->name))
			abort();
	}
}

static void check_again(const struct roster *r, const struct hash *run)
{
	struct roster *back;
	json_t *once = roster_json(r);
	if (!once || roster_parse(once, run, &back, NULL))
		abort();
	json_t *twice = roster_json(back);
	if (!json_equal(once, twice))
		abort();
	json_decref(once);
	json_decref(twice);
	roster_free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *body;
	if (json_parse(data, size, 1 << 16, &body, NULL))
		return 0;
	/* The run that the document is of, so that the fuzzer need not find one. */
	struct hash run = {{0}};
	const char *hex = json_string_value(json_object_get(body, "run"));
	if (hex && hash_parse(hex, &run))
		memset(&run, 0, sizeof run);
	struct roster *r;
	struct why why = {0};
	if (!roster_parse(body, &run, &r, &why)) {
		check_members(r);
		check_again(r, &run);
		roster_free(r);
	} else if (!why.code || !why.text[0]) {
		abort();
	}
	json_decref(body);
	return 0;
}
