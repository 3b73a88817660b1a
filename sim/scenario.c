#include "sim/scenario.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"

#define BYTES_MAX (1u << 20)
#define MISTAKES_MAX (1u << 16)
#define MBIT 1e6
#define LONG_S 1e9 /* seconds, at most */
#define RATE_MAX 1e6

static const char *const lies[] = {
#define X(name) #name,
	LIE_LIST(X)
#undef X
		NULL};

static char *beside(const char *path, const char *name)
{
	const char *slash = strrchr(path, '/');
	if (*name == '/' || !slash)
		return alloc_must_strdup(name);
	return alloc_must_printf("%.*s/%s", (int)(slash - path), path, name);
}

static void read_churn(struct json_in *of, const char *path, struct scenario_group *g)
{
	const double never = 0;
	char at[64];
	struct json_in in;
	snprintf(at, sizeof at, "%s.churn", path);
	const json_t *o = json_get_object(of, "churn", false);
	if (!o)
		return;
	json_in_init(&in, o, at, of->mistakes);
	g->dies_every_s = json_get_real(&in, "dies_every_s", 1, LONG_S, NULL);
	g->back_after_s = json_get_real(&in, "back_after_s", 0, LONG_S, &never);
	json_in_finish(&in);
}

static void read_group(const json_t *o, uint32_t i, struct scenario_group *g, struct buf *mistakes)
{
	const double none = 0;
	char path[32];
	struct json_in in;
	snprintf(path, sizeof path, "peers[%u]", i);
	json_in_init(&in, o, path, mistakes);
	g->count = (uint32_t)json_get_int(&in, "count", 1, SCENARIO_PEERS, NULL);
	g->speed = json_get_real(&in, "speed", 1e-3, 1e12, NULL);
	g->up = MBIT * json_get_real(&in, "up", 1e-3, RATE_MAX, NULL);
	g->down = MBIT * json_get_real(&in, "down", 1e-3, RATE_MAX, NULL);
	g->rtt_s = 1e-3 * json_get_real(&in, "rtt_ms", 0, 1e5, &none);
	g->joins_s = json_get_real(&in, "joins_s", 0, LONG_S, &none);
	read_churn(&in, path, g);
	g->lie = (enum lie)json_get_choice(&in, "liar", lies, "none");
	json_in_finish(&in);
}

static void read_coordinator(struct json_in *of, struct scenario *s)
{
	const double usual = 1000;
	struct json_in in;
	const json_t *o = json_get_object(of, "coordinator", false);
	json_in_init(&in, o, "coordinator", of->mistakes);
	s->up = MBIT * json_get_real(&in, "up", 1e-3, RATE_MAX, &usual);
	s->down = MBIT * json_get_real(&in, "down", 1e-3, RATE_MAX, &usual);
	if (o)
		json_in_finish(&in);
}

static void read_peers(struct json_in *in, struct scenario *s)
{
	const json_t *list = json_get_array(in, "peers", SCENARIO_GROUPS, true), *o;
	uint64_t peers = 0;
	size_t i;
	if (list && !json_array_size(list))
		json_mistake(in, "peers", "must have a group at least");
	json_array_foreach(list, i, o)
	{
		read_group(o, (uint32_t)i, &s->groups[i], in->mistakes);
		peers += s->groups[i].count;
		s->n_groups++;
	}
	if (peers > SCENARIO_PEERS)
		json_mistake(in, "peers", "are %llu together, more than %u",
			(unsigned long long)peers, SCENARIO_PEERS);
	s->peers = (uint32_t)peers;
}

static void read_all(const json_t *doc, const char *path, struct scenario *s, struct buf *mistakes)
{
	const int64_t as_spec = 0;
	struct json_in in;
	json_in_init(&in, doc, "", mistakes);
	s->spec = beside(path, json_get_text(&in, "spec", 4000, NULL));
	s->data = beside(path, json_get_text(&in, "data", 4000, NULL));
	s->seed = (uint64_t)json_get_int(&in, "seed", 0, INT64_MAX, NULL);
	s->rounds = (uint64_t)json_get_int(&in, "rounds", 1, 1000000000, &as_spec);
	read_coordinator(&in, s);
	read_peers(&in, s);
	json_in_finish(&in);
}

enum err scenario_load(const char *path, struct scenario *out, struct why *why)
{
	uint8_t *text = NULL;
	size_t n = 0;
	json_t *doc = NULL;
	struct buf mistakes;
	*out = (struct scenario){0};
	buf_init(&mistakes, MISTAKES_MAX);
	enum err err = file_read(path, BYTES_MAX, &text, &n, why);
	if (!err && (err = json_parse(text, n, BYTES_MAX, &doc, why))) {
		struct why inner = *why;
		err_why(why, err, "%s: %s", path, inner.text);
	}
	if (!err) {
		read_all(doc, path, out, &mistakes);
		err = json_verdict(&mistakes, path, why);
	}
	json_decref(doc);
	buf_release(&mistakes);
	free(text);
	return err;
}

void scenario_release(struct scenario *s)
{
	free(s->spec);
	free(s->data);
	*s = (struct scenario){0};
}

const struct scenario_group *scenario_member(const struct scenario *s, uint32_t member)
{
	uint32_t last = 0;
	for (uint32_t i = 0; i < s->n_groups; i++)
		if (member <= (last += s->groups[i].count))
			return &s->groups[i];
	return NULL;
}
