/* What the traces and the log of a run say. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "tests/help_bed.h"

#define LINE 4096
#define LOSS_LINE "validation loss after round "

struct lines {
	FILE *f;
	char at[LINE];
};

/* The next line that has its end; what is being written is left for another time. */
static bool next_line(struct lines *l)
{
	return l->f && fgets(l->at, sizeof l->at, l->f) && strchr(l->at, '\n');
}

static void close_lines(struct lines *l)
{
	if (l->f)
		fclose(l->f);
}

/* The next event of this name; NULL at the end.  Owned. */
static json_t *next_event(struct lines *l, const char *name)
{
	char want[40];
	snprintf(want, sizeof want, "\"event\":\"%s\"", name);
	while (next_line(l)) {
		json_t *e = strstr(l->at, want) ? json_loads(l->at, 0, NULL) : NULL;
		if (e)
			return e;
	}
	return NULL;
}

static double real(const json_t *e, const char *name)
{
	return json_number_value(json_object_get(e, name));
}

size_t help_bed_rounds(const struct help_bed_run *r, struct help_bed_round **out)
{
	char *path = alloc_must_printf("%s/%s/coordinator.trace", HELP_BED_FOLDER, r->name);
	struct lines l = {.f = fopen(path, "r")};
	size_t n = 0;
	*out = NULL;
	for (json_t *e; (e = next_event(&l, "round")) != NULL; json_decref(e)) {
		*out = alloc_must_resize(*out, n + 1, sizeof **out);
		(*out)[n++] = (struct help_bed_round){.t = real(e, "t"),
			.seconds = real(e, "seconds"),
			.round = (uint64_t)real(e, "round"),
			.members = (uint64_t)real(e, "members"),
			.tokens = (uint64_t)real(e, "tokens")};
	}
	close_lines(&l);
	free(path);
	return n;
}

double help_bed_when(const struct help_bed_run *r, int peer, const char *event, uint64_t round)
{
	char *path =
		peer < 0 ? alloc_must_printf("%s/%s/coordinator.trace", HELP_BED_FOLDER, r->name)
			 : alloc_must_printf("%s/%s/peer%d.trace", HELP_BED_FOLDER, r->name, peer);
	struct lines l = {.f = fopen(path, "r")};
	json_t *e = next_event(&l, "begin");
	const double begin = real(e, "clock");
	double at = INFINITY;
	json_decref(e);
	while (!isfinite(at) && (e = next_event(&l, event)) != NULL) {
		if (real(e, "round") >= (double)round)
			at = begin + real(e, "t");
		json_decref(e);
	}
	close_lines(&l);
	free(path);
	return at;
}

struct help_bed_pace help_bed_pace(const struct help_bed_run *r, uint64_t after)
{
	struct help_bed_round *rounds;
	const size_t n = help_bed_rounds(r, &rounds);
	struct help_bed_pace pace = {0};
	uint64_t tokens = 0;
	for (size_t i = 0; i < n; i++) {
		if (rounds[i].round > after)
			tokens += rounds[i].tokens;
		if (rounds[i].round <= after)
			pace.begin = r->started + rounds[i].t;
		pace.end = r->started + rounds[i].t;
	}
	if (pace.end > pace.begin)
		pace.tokens_per_s = (double)tokens / (pace.end - pace.begin);
	free(rounds);
	return pace;
}

double help_bed_steps(const struct help_bed_run *r, unsigned peer, double at)
{
	char *path = alloc_must_printf("%s/%s/peer%u.trace", HELP_BED_FOLDER, r->name, peer);
	struct lines l = {.f = fopen(path, "r")};
	double n = 0, last = r->started;
	for (json_t *e; (e = next_event(&l, "step")) != NULL;) {
		const double t = r->started + real(e, "t");
		json_decref(e);
		if (t > at) {
			n += (at - last) / (t - last);
			break;
		}
		last = t;
		n++;
	}
	close_lines(&l);
	free(path);
	return n;
}

double help_bed_validation(const struct help_bed_run *r, double target, uint64_t *round)
{
	char *path = alloc_must_printf("%s/%s/coordinator.log", HELP_BED_FOLDER, r->name);
	struct lines l = {.f = fopen(path, "r")};
	double loss = INFINITY;
	*round = 0;
	while (loss > target && next_line(&l)) {
		const char *at = strstr(l.at, LOSS_LINE), *colon = at ? strchr(at, ':') : NULL;
		if (!colon)
			continue;
		loss = strtod(colon + 1, NULL);
		*round = strtoull(at + strlen(LOSS_LINE), NULL, 10);
	}
	close_lines(&l);
	free(path);
	return loss;
}
