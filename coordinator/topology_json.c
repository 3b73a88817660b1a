#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "coordinator/distance.h"
#include "coordinator/topology.h"

#define BYTES_MAX 1e15
#define PLACE 4

static void put(json_t *doc, const char *name, json_t *value)
{
	json_object_set_new(doc, name, value);
}

/* Nobody is told by leaving it out. */
static void put_member(json_t *doc, const char *name, uint32_t number)
{
	if (number != TOPOLOGY_COORDINATOR)
		put(doc, name, json_integer((json_int_t)number));
}

static void put_real(json_t *doc, const char *name, double v)
{
	put(doc, name, isfinite(v) ? json_real(v) : json_null());
}

/* ---- what is known */

static json_t *member_json(const struct topology_member *m)
{
	json_t *doc = json_object();
	put_member(doc, "member", m->number);
	put(doc, "reachable", json_boolean(m->reachable));
	if (m->placed)
		put(doc, "place",
			json_pack("[f, f, f, f]", m->at[0], m->at[1], m->at[2], m->height));
	put_member(doc, "relay", m->before_relay);
	return doc;
}

static json_t *pair_json(const struct topology_pair *p)
{
	json_t *doc = json_object();
	put_member(doc, "from", p->from);
	put_member(doc, "to", p->to);
	put_real(doc, "rtt_s", p->rtt_s);
	put_real(doc, "up", p->up);
	put_real(doc, "down", p->down);
	put_real(doc, "age_s", p->age_s);
	put(doc, "together", json_boolean(p->together));
	return doc;
}

static json_t *shard_json(const struct topology_shard *s)
{
	json_t *doc = json_object();
	put_real(doc, "contribution", s->contribution);
	put_real(doc, "update", s->update);
	put_real(doc, "bundle", s->bundle);
	put_member(doc, "aggregator", s->before);
	return doc;
}

json_t *topology_json_dump(const struct topology_in *in)
{
	json_t *doc = json_object(), *members = json_array(), *pairs = json_array(),
	       *shards = json_array();
	put(doc, "mode", json_string(topology_mode_text(in->mode)));
	put(doc, "seed", json_integer((json_int_t)(in->seed & INT64_MAX)));
	put(doc, "coordinator", json_pack("{s:f, s:f}", "up", in->up, "down", in->down));
	put(doc, "slower",
		json_pack("{s:f, s:f}", "star", in->slower.star, "peers", in->slower.peers));
	put(doc, "before", json_boolean(in->before));
	for (uint32_t i = 0; i < in->n_members; i++)
		json_array_append_new(members, member_json(&in->members[i]));
	for (uint32_t i = 0; i < in->n_pairs; i++)
		json_array_append_new(pairs, pair_json(&in->pairs[i]));
	for (uint32_t i = 0; i < in->n_shards; i++)
		json_array_append_new(shards, shard_json(&in->shards[i]));
	put(doc, "members", members);
	put(doc, "pairs", pairs);
	put(doc, "shards", shards);
	return doc;
}

/* ---- the plan */

static json_t *time_json(const struct topology_time *t)
{
	json_t *doc = json_object();
	put_real(doc, "up_s", t->up_s);
	put_real(doc, "merge_s", t->merge_s);
	put_real(doc, "down_s", t->down_s);
	put_real(doc, "total_s", t->total_s);
	return doc;
}

static json_t *node_json(const struct topology_node *n)
{
	json_t *doc = json_object();
	put_member(doc, "member", n->number);
	put(doc, "cluster", json_integer((json_int_t)n->cluster));
	put_member(doc, "relay", n->relay);
	put_real(doc, "up", n->up);
	put_real(doc, "down", n->down);
	put(doc, "guessed", json_boolean(n->guessed));
	put_real(doc, "sends", n->sends);
	put_real(doc, "takes", n->takes);
	return doc;
}

json_t *topology_json_plan(const struct topology_plan *p)
{
	json_t *doc = json_object(), *nodes = json_array(), *shards = json_array();
	put(doc, "star", json_boolean(p->star));
	put(doc, "reason", json_string(p->reason));
	put(doc, "clusters", json_integer((json_int_t)p->n_clusters));
	put(doc, "predicted", time_json(&p->time));
	put(doc, "if_star", time_json(&p->if_star));
	put(doc, "if_peers", time_json(&p->if_peers));
	for (uint32_t i = 0; p->nodes && i < p->n_members; i++)
		json_array_append_new(nodes, node_json(&p->nodes[i]));
	for (uint32_t s = 0; s < p->n_shards; s++)
		json_array_append_new(shards, p->aggregator[s] == TOPOLOGY_COORDINATOR
						      ? json_null()
						      : json_integer((json_int_t)p->aggregator[s]));
	put(doc, "members", nodes);
	put(doc, "coordinator", p->nodes ? node_json(&p->nodes[p->n_members]) : json_null());
	put(doc, "aggregators", shards);
	return doc;
}

/* ---- reading */

static uint32_t read_number(struct json_in *in, const char *name, bool required)
{
	const int64_t none = -1;
	const int64_t n =
		json_get_int(in, name, 0, TOPOLOGY_MEMBERS_MAX - 1, required ? NULL : &none);
	return n < 0 ? TOPOLOGY_COORDINATOR : (uint32_t)n;
}

static void read_member(struct json_in *in, struct topology_member *m)
{
	m->number = read_number(in, "member", true);
	m->reachable = json_get_flag(in, "reachable", NULL);
	m->before_relay = read_number(in, "relay", false);
	const json_t *place = json_get_array(in, "place", PLACE, false);
	double v[PLACE] = {0};
	bool good = json_array_size(place) == PLACE;
	for (size_t i = 0; good && i < PLACE; i++) {
		v[i] = json_number_value(json_array_get(place, i));
		good = json_is_number(json_array_get(place, i)) &&
		       fabs(v[i]) <= DISTANCE_RTT_MAX * 4;
	}
	if (place && !good)
		json_mistake(in, "place", "must be four numbers of seconds");
	m->placed = place && good;
	memcpy(m->at, v, sizeof m->at);
	m->height = v[PLACE - 1];
}

static void read_pair(struct json_in *in, struct topology_pair *p)
{
	p->from = read_number(in, "from", true);
	p->to = read_number(in, "to", false);
	p->rtt_s = json_get_real(in, "rtt_s", 0, DISTANCE_RTT_MAX, NULL);
	p->up = json_get_real(in, "up", 0, DISTANCE_RATE_MAX, NULL);
	p->down = json_get_real(in, "down", 0, DISTANCE_RATE_MAX, NULL);
	p->age_s = json_get_real(in, "age_s", 0, 1e9, NULL);
	p->together = json_get_flag(in, "together", NULL);
}

static void read_shard(struct json_in *in, struct topology_shard *s)
{
	s->contribution = json_get_real(in, "contribution", 0, BYTES_MAX, NULL);
	s->update = json_get_real(in, "update", 0, BYTES_MAX, NULL);
	s->bundle = json_get_real(in, "bundle", 0, BYTES_MAX, NULL);
	s->before = read_number(in, "aggregator", false);
}

/* Room for the items of a list; *n: how many. */
static void *room(struct json_in *in, const char *name, uint32_t most, size_t each,
	const json_t **list, uint32_t *n)
{
	*list = json_get_array(in, name, most, true);
	const size_t size = json_array_size(*list);
	void *out = size <= most ? alloc_try(size + 1, each) : NULL;
	*n = out ? (uint32_t)size : 0;
	if (size && !out)
		json_mistake(in, name, "is too long");
	return out;
}

static void read_lists(struct json_in *in, struct topology_in *out)
{
	struct json_in at;
	const json_t *list;
	out->members = room(
		in, "members", TOPOLOGY_MEMBERS_MAX, sizeof *out->members, &list, &out->n_members);
	for (uint32_t i = 0; i < out->n_members; i++) {
		json_in_init(&at, json_array_get(list, i), "members", in->mistakes);
		read_member(&at, &out->members[i]);
		json_in_finish(&at);
	}
	out->pairs =
		room(in, "pairs", TOPOLOGY_PAIRS_MAX, sizeof *out->pairs, &list, &out->n_pairs);
	for (uint32_t i = 0; i < out->n_pairs; i++) {
		json_in_init(&at, json_array_get(list, i), "pairs", in->mistakes);
		read_pair(&at, &out->pairs[i]);
		json_in_finish(&at);
	}
	out->shards =
		room(in, "shards", TOPOLOGY_SHARDS_MAX, sizeof *out->shards, &list, &out->n_shards);
	for (uint32_t i = 0; i < out->n_shards; i++) {
		json_in_init(&at, json_array_get(list, i), "shards", in->mistakes);
		read_shard(&at, &out->shards[i]);
		json_in_finish(&at);
	}
}

/* Two of one number would make the plan depend on their order. */
static void check_members(struct json_in *in, const struct topology_in *out)
{
	bool *seen = alloc_must_zero(TOPOLOGY_MEMBERS_MAX, sizeof *seen);
	for (uint32_t i = 0; i < out->n_members; i++) {
		const uint32_t number = out->members[i].number;
		if (number < TOPOLOGY_MEMBERS_MAX && seen[number])
			json_mistake(in, "members", "member %u is there twice", number);
		if (number < TOPOLOGY_MEMBERS_MAX)
			seen[number] = true;
	}
	free(seen);
}

static void read_two(struct json_in *in, const char *name, const char *const names[2], double most,
	double *one, double *other)
{
	struct json_in at;
	const json_t *doc = json_get_object(in, name, true);
	json_in_init(&at, doc, name, in->mistakes);
	*one = json_get_real(&at, names[0], 0, most, NULL);
	*other = json_get_real(&at, names[1], 0, most, NULL);
	json_in_finish(&at);
}

enum err topology_json_load(const json_t *doc, struct topology_in *out, struct why *why)
{
	static const char *const modes[] = {
#define X(name) #name,
		TOPOLOGY_MODE_LIST(X)
#undef X
			NULL};
	static const char *const ways[] = {"up", "down"}, *const kinds[] = {"star", "peers"};
	struct buf mistakes;
	struct json_in in;
	*out = (struct topology_in){0};
	if (!json_is_object(doc))
		return err_why(why, ERR_syntax, "there is no input of a plan");
	buf_init(&mistakes, 4096);
	json_in_init(&in, doc, "", &mistakes);
	out->mode = (enum topology_mode)json_get_choice(&in, "mode", modes, NULL);
	out->seed = (uint64_t)json_get_int(&in, "seed", 0, INT64_MAX, NULL);
	out->before = json_get_flag(&in, "before", NULL);
	read_two(&in, "coordinator", ways, DISTANCE_RATE_MAX, &out->up, &out->down);
	read_two(&in, "slower", kinds, 1e6, &out->slower.star, &out->slower.peers);
	read_lists(&in, out);
	check_members(&in, out);
	json_in_finish(&in);
	enum err err = json_verdict(&mistakes, "the input of a plan is malformed", why);
	buf_release(&mistakes);
	if (err)
		topology_in_release(out);
	return err;
}
