#include "tests/wan/bed.h"
#include "base/file.h"
#include "base/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MOST 65536
#define WORDS 16
#define QUEUE_MS 100

struct words {
	char *word[WORDS];
	size_t n;
};

/* Cuts line in place. */
static enum err split(char *line, struct words *out, struct why *why)
{
	line[strcspn(line, "#")] = '\0';
	out->n = 0;
	for (char *word; (word = strsep(&line, " \t\r")) != NULL;) {
		if (!*word)
			continue;
		if (out->n == WORDS)
			return err_why(why, ERR_toobig, "more than %d words", WORDS);
		out->word[out->n++] = word;
	}
	return ERR_OK;
}

static enum err name_check(const char *what, const char *name, struct why *why)
{
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");
	if (!n || name[n] || n >= BED_NAME)
		return err_why(why, ERR_syntax,
			"\"%.40s\" is no name of a %s: up to %d of a-z, 0-9 and -", name, what,
			BED_NAME - 1);
	return ERR_OK;
}

/* ---- keys */

static const struct key {
	const char *name;
	size_t first, second; /* where the value goes; equal where it goes to one place */
	double least, most;
	bool node_only;
} keys[] = {
#define AT(member) offsetof(struct bed_way, member)
	{"up", AT(up), AT(up), 0, 100000, false},
	{"down", AT(down), AT(down), 0, 100000, false},
	{"rate", AT(up), AT(down), 0, 100000, false},
	{"delay", AT(delay), AT(delay), 0, 60000, false},
	{"jitter", AT(jitter), AT(jitter), 0, 60000, false},
	{"loss", AT(loss), AT(loss), 0, 1, false},
	{"queue", AT(queue), AT(queue), 0.1, 60000, false},
	{"speed", AT(speed), AT(speed), 0.001, 1000, true},
#undef AT
};
#define N_KEYS (sizeof keys / sizeof *keys)

static enum err key_set(struct bed_way *way, char *word, bool node, struct why *why)
{
	const char *names[N_KEYS];
	char *equals = strchr(word, '=');
	if (!equals)
		return err_why(why, ERR_syntax, "\"%.40s\" is no KEY=VALUE", word);
	*equals = '\0';
	for (size_t i = 0; i < N_KEYS; i++) {
		const struct key *k = &keys[i];
		names[i] = k->name;
		if (strcmp(word, k->name) != 0)
			continue;
		if (k->node_only && !node)
			return err_why(why, ERR_syntax, "%s= is for nodes only", word);
		char *end;
		double value = strtod(equals + 1, &end);
		if (end == equals + 1 || *end)
			return err_why(why, ERR_syntax, "%s=%.40s is no number", word, equals + 1);
		if (!(value >= k->least && value <= k->most))
			return err_why(why, ERR_range, "%s=%.40s must be %g to %g", word,
				equals + 1, k->least, k->most);
		memcpy((char *)way + k->first, &value, sizeof value);
		memcpy((char *)way + k->second, &value, sizeof value);
		return ERR_OK;
	}
	const char *near = text_nearest(word, names, N_KEYS);
	return err_why(why, ERR_syntax, "unknown key %.40s=%s%s%s", word,
		near ? "; did you mean " : "", near ? near : "", near ? "=?" : "");
}

static enum err keys_set(
	struct bed_way *way, const struct words *w, size_t from, bool node, struct why *why)
{
	enum err err = ERR_OK;
	for (size_t i = from; !err && i < w->n; i++)
		err = key_set(way, w->word[i], node, why);
	return err;
}

/* ---- names */

size_t bed_find(const struct bed *t, const char *node)
{
	size_t i = 0;
	while (i < t->n_nodes && strcmp(t->node[i].name, node) != 0)
		i++;
	return i;
}

static size_t site_find(const struct bed *t, const char *site)
{
	size_t i = 0;
	while (i < t->n_sites && strcmp(t->site[i], site) != 0)
		i++;
	return i;
}

static enum err node_named(struct bed *t, const char *name, size_t *out, struct why *why)
{
	*out = bed_find(t, name);
	if (*out == t->n_nodes)
		return err_why(why, ERR_missing, "there is no node \"%.40s\"", name);
	return ERR_OK;
}

static enum err link_named(
	struct bed *t, char *const site[2], struct bed_way **out, bool *turned, struct why *why)
{
	size_t at[2];
	for (int i = 0; i < 2; i++) {
		at[i] = site_find(t, site[i]);
		if (at[i] == t->n_sites)
			return err_why(why, ERR_missing,
				"no node is at a site \"%.40s\" (nodes come before links)",
				site[i]);
	}
	*turned = at[0] > at[1];
	*out = bed_link(t, at[0], at[1]);
	return ERR_OK;
}

struct bed_way *bed_link(struct bed *t, size_t a, size_t b)
{
	return a <= b ? &t->link[a][b] : &t->link[b][a];
}

void bed_address(size_t node, char out[static 16])
{
	snprintf(out, 16, "10.77.0.%u", (unsigned)(node + 1) & 0xff);
}

/* ---- lines */

static enum err add_node(struct bed *t, const struct words *w, struct why *why)
{
	if (w->n < 3)
		return err_why(
			why, ERR_syntax, "a node has a name and a site: node NAME SITE up=20");
	enum err err = name_check("node", w->word[1], why);
	if (!err)
		err = name_check("site", w->word[2], why);
	if (err)
		return err;
	if (bed_find(t, w->word[1]) < t->n_nodes)
		return err_why(why, ERR_exists, "a second node \"%s\"", w->word[1]);
	if (t->n_nodes == BED_NODES)
		return err_why(why, ERR_toobig, "more than %d nodes", BED_NODES);
	size_t site = site_find(t, w->word[2]);
	if (site == BED_SITES)
		return err_why(why, ERR_toobig, "more than %d sites", BED_SITES);
	if (site == t->n_sites)
		memcpy(t->site[t->n_sites++], w->word[2], strlen(w->word[2]) + 1);
	struct bed_node *node = &t->node[t->n_nodes++];
	memcpy(node->name, w->word[1], strlen(w->word[1]) + 1);
	node->site = site;
	node->way = (struct bed_way){.queue = QUEUE_MS, .speed = 1, .given = true};
	return keys_set(&node->way, w, 3, true, why);
}

static void turn(struct bed_way *way)
{
	double up = way->up;
	way->up = way->down;
	way->down = up;
}

static enum err set_link(struct bed *t, const struct words *w, bool add, struct why *why)
{
	struct bed_way *way;
	bool turned;
	if (w->n < 3)
		return err_why(why, ERR_syntax, "a link has two sites: link SITE SITE delay=10");
	enum err err = link_named(t, w->word + 1, &way, &turned, why);
	if (err)
		return err;
	if (add && way->given)
		return err_why(why, ERR_exists, "a second link between \"%s\" and \"%s\"",
			w->word[1], w->word[2]);
	if (add)
		*way = (struct bed_way){.queue = QUEUE_MS, .given = true};
	if (turned)
		turn(way);
	err = keys_set(way, w, 3, false, why);
	if (turned)
		turn(way);
	return err;
}

static enum err cut_or_heal(struct bed *t, const struct words *w, struct why *why)
{
	bool cut = strcmp(w->word[0], "cut") == 0, turned;
	struct bed_way *way = NULL;
	size_t node;
	enum err err = ERR_OK;
	if (w->n == 2) {
		err = node_named(t, w->word[1], &node, why);
		way = err ? NULL : &t->node[node].way;
	} else if (w->n == 3) {
		err = link_named(t, w->word + 1, &way, &turned, why);
	} else {
		err = err_why(why, ERR_syntax, "%s takes a node or two sites", w->word[0]);
	}
	if (!err)
		way->cut = cut;
	return err;
}

static enum err change(struct bed *t, const struct words *w, struct why *why)
{
	const char *what = w->n ? w->word[0] : "";
	if (strcmp(what, "cut") == 0 || strcmp(what, "heal") == 0)
		return cut_or_heal(t, w, why);
	if (strcmp(what, "link") == 0)
		return set_link(t, w, false, why);
	if (strcmp(what, "node") != 0 || w->n < 2)
		return err_why(why, ERR_syntax,
			"\"%.40s\" is none of: node NAME, link SITE SITE, "
			"cut, heal",
			what);
	size_t node;
	enum err err = node_named(t, w->word[1], &node, why);
	return err ? err : keys_set(&t->node[node].way, w, 2, true, why);
}

enum err bed_change(struct bed *t, const char *line, struct why *why)
{
	char text[512];
	struct words w;
	struct bed changed = *t;
	if ((size_t)snprintf(text, sizeof text, "%s", line) >= sizeof text)
		return err_why(why, ERR_toobig, "the line is too long");
	enum err err = split(text, &w, why);
	if (!err)
		err = change(&changed, &w, why);
	if (!err)
		*t = changed;
	return err;
}

/* ---- the file */

static enum err add_nat(struct bed *t, const struct words *w, struct why *why)
{
	if (w->n != 2)
		return err_why(why, ERR_syntax, "a router has a site: nat SITE");
	const size_t site = site_find(t, w->word[1]);
	if (site == t->n_sites)
		return err_why(why, ERR_missing,
			"no node is at a site \"%.40s\" (nodes come before routers)", w->word[1]);
	t->nat[site] = true;
	return ERR_OK;
}

static enum err add_line(struct bed *t, char *line, struct why *why)
{
	struct words w;
	enum err err = split(line, &w, why);
	if (err || !w.n)
		return err;
	if (strcmp(w.word[0], "node") == 0)
		return add_node(t, &w, why);
	if (strcmp(w.word[0], "link") == 0)
		return set_link(t, &w, true, why);
	if (strcmp(w.word[0], "nat") == 0)
		return add_nat(t, &w, why);
	return err_why(why, ERR_syntax, "a line begins with node, link or nat, not with \"%.40s\"",
		w.word[0]);
}

static enum err check_whole(struct bed *t, struct why *why)
{
	if (bed_find(t, "coordinator") == t->n_nodes)
		return err_why(why, ERR_missing,
			"there is no node \"coordinator\": add node coordinator SITE");
	for (size_t a = 0; a < t->n_nodes; a++)
		for (size_t b = a + 1; b < t->n_nodes; b++)
			if (!bed_link(t, t->node[a].site, t->node[b].site)->given)
				return err_why(why, ERR_missing,
					"nodes %s and %s have no link: add link %s %s",
					t->node[a].name, t->node[b].name, t->site[t->node[a].site],
					t->site[t->node[b].site]);
	return ERR_OK;
}

enum err bed_read(const char *path, struct bed *out, struct why *why)
{
	uint8_t *bytes;
	size_t n, number = 0;
	enum err err = file_read(path, FILE_MOST, &bytes, &n, why);
	if (err)
		return err;
	memset(out, 0, sizeof *out);
	char *rest = (char *)bytes, *line;
	while (!err && (line = strsep(&rest, "\n")) != NULL) {
		number++;
		err = add_line(out, line, why);
	}
	if (err)
		err = err_why(why, err, "%s line %zu: %s", path, number, why ? why->text : "");
	else if ((err = check_whole(out, why)) != ERR_OK)
		err = err_why(why, err, "%s: %s", path, why ? why->text : "");
	free(bytes);
	return err;
}

/* ---- promises */

static double narrowest(double a, double b)
{
	return a > 0 && (b <= 0 || a < b) ? a : b;
}

struct bed_path bed_path(const struct bed *t, size_t from, size_t to)
{
	const struct bed_node *a = &t->node[from], *b = &t->node[to];
	bool turned = a->site > b->site;
	const struct bed_way *l = turned ? &t->link[b->site][a->site] : &t->link[a->site][b->site];
	double there = turned ? l->down : l->up, back = turned ? l->up : l->down;
	return (struct bed_path){
		.up = narrowest(narrowest(a->way.up, there), b->way.down),
		.down = narrowest(narrowest(b->way.up, back), a->way.down),
		.delay = a->way.delay + l->delay + b->way.delay,
		.jitter = a->way.jitter + l->jitter + b->way.jitter,
		.loss = 1 - (1 - a->way.loss) * (1 - l->loss) * (1 - b->way.loss),
	};
}
