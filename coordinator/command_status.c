/* shoal-coordinator status: asks a coordinator that serves, as a peer would, and says it in words.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/option.h"
#include "base/program.h"
#include "base/text.h"
#include "coordinator/commands.h"
#include "coordinator/contact.h"
#include "coordinator/human.h"

#define REPLY_MOST (16u << 20)

static struct {
	bool peers;
} opt;

static const struct option_row rows[] = {
	{"peers", OPTION_flag, &opt.peers, NULL, 0, 0, "also every member, and why it idles"},
};
#define N_ROWS (sizeof rows / sizeof *rows)

static const char about[] =
	"shoal-coordinator status DIR|LINK [--peers]\n\n"
	"DIR is the folder of a run that is served on this machine; LINK a file with its "
	"join "
	"link, or -\nfor standard input, from anywhere.\n";

static const char examples[] = "  shoal-coordinator status run --peers\n";

/* ---- what came is another program's: nothing in it is taken for granted */

static const char *text_of(const json_t *doc, const char *name, char *out, size_t room)
{
	const char *v = json_string_value(json_object_get(doc, name));
	snprintf(out, room, "%s", v ? v : "?");
	text_clean(out);
	return out;
}

static uint64_t count_of(const json_t *doc, const char *name)
{
	json_int_t v = json_integer_value(json_object_get(doc, name));
	return v > 0 ? (uint64_t)v : 0;
}

static double real_of(const json_t *doc, const char *name)
{
	return json_number_value(json_object_get(doc, name));
}

static void print_delays(const json_t *delays)
{
	bool any = false;
	for (size_t i = 0; i < json_array_size(delays); i++) {
		const json_t *d = json_array_get(delays, i);
		if (!json_is_number(json_object_get(d, "seconds")))
			continue;
		printf("%s shard %llu %.2f s (%.3f of its round)", any ? "," : "delay        ",
			(unsigned long long)count_of(d, "shard"), real_of(d, "seconds"),
			real_of(d, "share"));
		any = true;
	}
	if (any)
		printf("\n");
}

static void print_egress(const json_t *e)
{
	char sent[HUMAN_TEXT], rate[HUMAN_TEXT], most[HUMAN_TEXT];
	const double now = real_of(e, "bits_per_s");
	printf("egress        %s, %s",
		human_size(now > 0 && now < 1e15 ? (uint64_t)now : 0, "bit/s", rate),
		json_is_integer(json_object_get(e, "max_bits_per_s")) ? "of at most " : "no limit");
	if (json_is_integer(json_object_get(e, "max_bits_per_s")))
		printf("%s", human_size(count_of(e, "max_bits_per_s"), "bit/s", most));
	printf("; %s in all\n", human_size(count_of(e, "bytes"), "B", sent));
}

static void print_overview(const json_t *o)
{
	const json_t *run = json_object_get(o, "run"), *loss = json_object_get(o, "loss"),
		     *members = json_object_get(o, "members");
	char name[80], state[20], reason[256], tokens[HUMAN_TEXT], total[HUMAN_TEXT], left[24];
	printf("run           %s, %s\n", text_of(run, "name", name, sizeof name),
		text_of(o, "state", state, sizeof state));
	printf("now           %s\n", text_of(o, "reason", reason, sizeof reason));
	printf("tokens        %s of %s\n", human_count(count_of(o, "tokens"), tokens),
		human_count(count_of(o, "total_tokens"), total));
	if (json_is_number(json_object_get(o, "tokens_per_s"))) {
		double eta = real_of(o, "eta_s");
		clock_text((uint64_t)((eta > 0 && eta < 1e9 ? eta : 0) * 1e9), left);
		printf("speed         %.0f tokens/s, %s left\n", real_of(o, "tokens_per_s"), left);
	}
	print_delays(json_object_get(o, "delays"));
	if (loss && json_is_object(loss))
		printf("loss          %.4f nats per byte after round %llu\n",
			real_of(loss, "nats_per_byte"),
			(unsigned long long)count_of(loss, "round"));
	printf("members       %llu: %llu working, %llu in, %llu ready, %llu syncing, %llu away, "
	       "%llu gone\n",
		(unsigned long long)count_of(members, "total"),
		(unsigned long long)count_of(members, "working"),
		(unsigned long long)count_of(members, "in"),
		(unsigned long long)count_of(members, "ready"),
		(unsigned long long)count_of(members, "syncing"),
		(unsigned long long)count_of(members, "away"),
		(unsigned long long)count_of(members, "gone"));
	print_egress(json_object_get(o, "egress"));
	printf("refusals      %llu\n", (unsigned long long)count_of(o, "refusals"));
	const json_t *alerts = json_object_get(o, "alerts");
	for (size_t i = 0; i < json_array_size(alerts); i++) {
		const char *alert = json_string_value(json_array_get(alerts, i));
		snprintf(reason, sizeof reason, "%s", alert ? alert : "?");
		text_clean(reason);
		printf("alert         %s\n", reason);
	}
}

static void print_peers(const json_t *doc)
{
	const json_t *peers = json_object_get(doc, "peers");
	printf("\n%6s  %-20s  %-8s  %12s  %10s  %s\n", "member", "name", "state", "tokens",
		"tokens/s", "why it idles");
	for (size_t i = 0; i < json_array_size(peers); i++) {
		const json_t *p = json_array_get(peers, i);
		char name[80], state[20], reason[256], tokens[HUMAN_TEXT];
		printf("%6llu  %-20s  %-8s  %12s  %10.0f  %s\n",
			(unsigned long long)count_of(p, "number"),
			text_of(p, "name", name, sizeof name),
			text_of(p, "state", state, sizeof state),
			human_count(count_of(p, "tokens"), tokens), real_of(p, "tokens_per_s"),
			text_of(p, "reason", reason, sizeof reason));
	}
}

static enum err show_peers(struct https_client *c, struct why *why)
{
	uint64_t from = 0;
	for (;;) {
		char path[64];
		json_t *doc = NULL;
		snprintf(path, sizeof path, "/api/v1/peers.json?from=%llu",
			(unsigned long long)from);
		enum err err = https_client_get_json(c, path, REPLY_MOST, &doc, why);
		if (err)
			return err;
		uint64_t next = count_of(doc, "next");
		print_peers(doc);
		json_decref(doc);
		if (next <= from)
			return ERR_OK;
		from = next;
	}
}

static enum err ask(const char *word, struct why *why)
{
	struct https_client *c = NULL;
	json_t *overview = NULL;
	enum err err = contact(word, &c, why);
	if (!err)
		err = https_client_get_json(c, "/api/v1/overview.json", REPLY_MOST, &overview, why);
	if (!err)
		print_overview(overview);
	if (!err && opt.peers)
		err = show_peers(c, why);
	json_decref(overview);
	https_client_free(c);
	return err;
}

int command_status(int argc, char **argv)
{
	const char *words[1];
	size_t n = 0;
	struct why why = {0};
	const struct program_options options = {.program = COMMAND_PROGRAM,
		.rows = rows,
		.n_rows = N_ROWS,
		.about = about,
		.examples = examples,
		.words = words,
		.max_words = 1};
	int status;
	if (!program_options(&options, argc, argv, &n, &status))
		return status;
	enum err err =
		n ? ask(words[0], &why)
		  : err_why(&why, ERR_usage, "no folder is given: shoal-coordinator status DIR");
	return err ? program_fail(COMMAND_PROGRAM, argv[0], &why) : PROGRAM_ok;
}
