/* shoal-coordinator invite: join links, while the run is served or not. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/option.h"
#include "base/program.h"
#include "base/text.h"
#include "coordinator/commands.h"
#include "coordinator/invites.h"
#include "net/identity.h"

static struct {
	int64_t uses, port;
	uint64_t expires_ns;
	const char *address;
} opt;

static const struct option_row rows[] = {
	{"uses", OPTION_int, &opt.uses, "1", 0, 16384,
		"create: peers that may use it; 0: any number"},
	{"expires", OPTION_seconds, &opt.expires_ns, "7d", 0, 3.2e8,
		"create: how long it is good for; 0: for ever"},
	{"public-address", OPTION_text, &opt.address, NULL, 0, 0,
		"create: name or address of the coordinator; else as the run was served last"},
	{"port", OPTION_int, &opt.port, "0", 0, 65535,
		"create: the coordinator's port; 0: as the run was served last"},
};
#define N_ROWS (sizeof rows / sizeof *rows)

static const char about[] =
	"shoal-coordinator invite create DIR [--uses N] [--expires TIME]\n"
	"shoal-coordinator invite list DIR\n"
	"shoal-coordinator invite revoke DIR ID\n\n"
	"DIR is the folder of a run, which may be served meanwhile.  create prints a join "
	"link: whoever\nhas it may let one new peer in for each use.  A peer that is a "
	"member "
	"already needs no invite.\n";

static const char examples[] =
	"  shoal-coordinator invite create run --uses 20 --expires 30d > link\n";

struct folder {
	const char *dir;
	struct identity_coordinator keys;
	struct store *store;
	struct hash run;
};

static enum err find_run(struct folder *f, struct why *why)
{
	uint8_t *text = NULL;
	size_t n;
	enum err err = store_get(f->store, "spec", &text, &n, why);
	if (err == ERR_missing)
		return err_why(why, err, "%s holds no run yet: start it with serve", f->dir);
	if (!err)
		f->run = hash_of(text, n); /* it was stored in its canonical form */
	free(text);
	return err;
}

static enum err open_folder(const char *dir, struct folder *f, struct why *why)
{
	char *keys = alloc_must_printf("%s/keys", dir),
	     *store = alloc_must_printf("%s/store.sqlite", dir);
	enum err err = ERR_OK;
	*f = (struct folder){.dir = dir};
	if (!file_exists(store))
		err = err_why(why, ERR_missing, "%s holds no run: start it with serve", dir);
	if (!err)
		err = identity_coordinator_open(keys, &f->keys, why);
	if (!err)
		err = store_open(store, &f->store, why);
	if (!err)
		err = find_run(f, why);
	free(keys);
	free(store);
	return err;
}

static void close_folder(struct folder *f)
{
	store_close(f->store);
	identity_coordinator_release(&f->keys);
}

/* Where the coordinator said, when it was last started, that it can be reached. */
static enum err read_place(
	const struct folder *f, char host[static JOINLINK_HOST], uint64_t *port, struct why *why)
{
	uint8_t *text = NULL;
	size_t n = 0;
	enum err err = store_get(f->store, "public_host", &text, &n, why);
	if (!err && n < JOINLINK_HOST)
		memcpy(host, text, n + 1);
	free(text);
	if (!err)
		err = store_get_number(f->store, "public_port", 0, port, why);
	if (err == ERR_missing || (!err && (!*port || *port > 65535 || n >= JOINLINK_HOST)))
		err = err_why(why, ERR_missing,
			"the coordinator of %s was not started yet: give --public-address and "
			"--port",
			f->dir);
	return err;
}

static enum err create(struct folder *f, struct why *why)
{
	char host[JOINLINK_HOST], link[JOINLINK_MAX];
	uint64_t port = 0;
	struct invites_wish wish = {.uses = (uint32_t)opt.uses};
	enum err err = ERR_OK;
	if (!opt.address || !opt.port)
		err = read_place(f, host, &port, why);
	if (err)
		return err;
	wish.host = opt.address ? opt.address : host;
	wish.port = (uint16_t)(opt.port ? (uint64_t)opt.port : port);
	if (strlen(wish.host) >= JOINLINK_HOST)
		return err_why(why, ERR_range, "--public-address is too long");
	if (opt.expires_ns)
		wish.expires_s = clock_wall_s() + opt.expires_ns / CLOCK_SECOND;
	const struct invites in = {f->store, &f->run, f->keys.run};
	err = invites_make(&in, &wish, link, why);
	if (!err)
		printf("%s\n", link);
	return err;
}

static const char *when(uint64_t s, char out[static 24])
{
	time_t t = (time_t)s;
	struct tm tm;
	if (!s || !gmtime_r(&t, &tm) || !strftime(out, 24, "%Y-%m-%d %H:%M", &tm))
		snprintf(out, 24, "never");
	return out;
}

static void print_invite(void *arg, const struct store_invite *i)
{
	char made[24], expires[24], uses[24];
	(void)arg;
	snprintf(uses, sizeof uses, i->uses ? "%u of %u" : "%u of any", i->used, i->uses);
	const uint64_t end_s = i->expires_s ? i->expires_s + INVITE_SLACK_S : UINT64_MAX;
	const char *state = i->revoked                      ? "revoked"
			    : end_s < clock_wall_s()        ? "expired"
			    : i->uses && i->used >= i->uses ? "used up"
							    : "good";
	printf("%-16s  %-16s  %-16s  %-12s  %s\n", i->id, when(i->created_s, made),
		when(i->expires_s, expires), uses, state);
}

static enum err list(struct folder *f, struct why *why)
{
	printf("%-16s  %-16s  %-16s  %-12s  %s\n", "id", "made (UTC)", "expires", "used", "state");
	return store_invite_list(f->store, print_invite, NULL, why);
}

static enum err revoke(struct folder *f, const char *id, struct why *why)
{
	struct store_invite i;
	enum err err = store_invite_find(f->store, id, &i, why);
	if (err == ERR_missing)
		return err_why(why, err, "there is no invite %s: invite list shows them", id);
	if (err)
		return err;
	store_begin(f->store);
	store_invite_revoke(f->store, id);
	err = store_commit(f->store, why);
	if (!err)
		printf("invite: revoked %s; %u peer%s joined with it and stay%s members\n", id,
			i.used, i.used == 1 ? "" : "s", i.used == 1 ? "s" : "");
	return err;
}

static enum err run(const char *const *words, size_t n, struct why *why)
{
	static const char *const verbs[] = {"create", "list", "revoke"};
	struct folder f = {0};
	size_t at = 0;
	while (n && at < 3 && strcmp(words[0], verbs[at]))
		at++;
	if (!n || at == 3) {
		const char *meant = n ? text_nearest(words[0], verbs, 3) : NULL;
		return err_why(why, ERR_usage, "invite wants create, list or revoke%s%s%s",
			meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
	}
	if (n < 2)
		return err_why(why, ERR_usage, "no folder is given: invite %s DIR", words[0]);
	if ((at == 2) != (n == 3))
		return err_why(why, ERR_usage,
			at == 2 ? "no invite is named: invite revoke DIR ID"
				: "\"%s\" is one word too many",
			words[2]);
	enum err err = open_folder(words[1], &f, why);
	if (!err)
		err = at == 0   ? create(&f, why)
		      : at == 1 ? list(&f, why)
				: revoke(&f, words[2], why);
	close_folder(&f);
	return err;
}

int command_invite(int argc, char **argv)
{
	const char *words[3] = {NULL};
	size_t n = 0;
	struct why why = {0};
	const struct program_options options = {.program = COMMAND_PROGRAM,
		.rows = rows,
		.n_rows = N_ROWS,
		.about = about,
		.examples = examples,
		.words = words,
		.max_words = 3};
	int status;
	if (!program_options(&options, argc, argv, &n, &status))
		return status;
	enum err err = run(words, n, &why);
	return err ? program_fail(COMMAND_PROGRAM, argv[0], &why) : PROGRAM_ok;
}
