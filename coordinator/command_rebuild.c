/* shoal-coordinator rebuild: a run whose folder is lost, out of the key's backup and the peers. */
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/option.h"
#include "base/program.h"
#include "base/signal.h"
#include "coordinator/commands.h"
#include "coordinator/rebuild.h"
#include "net/backup.h"
#include "net/passphrase.h"

#define SETS_MAX 64

static struct {
	struct rebuild_config how;
	const char *backup, *passphrase_file;
	int64_t port, link_port;
} opt;

static const struct option_row rows[] = {
	{"backup", OPTION_text, &opt.backup, NULL, 0, 0,
		"the run key, as shoal-coordinator backup wrote it"},
	{"passphrase-file", OPTION_text, &opt.passphrase_file, NULL, 0, 0,
		"file whose first line is the passphrase; else SHOAL_PASSPHRASE, else it is asked "
		"for"},
	{"data", OPTION_text, &opt.how.data, NULL, 0, 0, "folder made by prepare for this spec"},
	{"dir", OPTION_text, &opt.how.dir, NULL, 0, 0,
		"folder to make; DIR.rebuilding holds what is there so far"},
	{"init", OPTION_text, &opt.how.init, NULL, 0, 0,
		"the Hugging Face folder that the run began with, if it did"},
	{"address", OPTION_text, &opt.how.address, "*", 0, 0,
		"address to listen on, as serve did; *: all of this machine"},
	{"port", OPTION_int, &opt.port, "7433", 1, 65535, "where serve listened (HTTPS)"},
	{"link-port", OPTION_int, &opt.link_port, "7434", 0, 65535, "of the data plane"},
	{"wait", OPTION_seconds, &opt.how.wait_ns, "60", 0, 86400,
		"for further peers after the first one: the run goes on from the highest head "
		"among those that came"},
};
#define N_ROWS (sizeof rows / sizeof *rows)

static const char about[] =
	"shoal-coordinator rebuild SPEC --backup FILE --data DIR --dir DIR [PATH=VALUE ...]\n\n"
	"Makes the folder of a run again that was lost, from the run key and what the peers of "
	"the run\nkeep.  It listens where serve did; peers come by themselves.  When it says "
	"ok, start serve with\nthat folder.  Losses that were measured, and which invites were "
	"used or revoked, are not known\nany more: revoke again what must not be used.\n";

static const char examples[] =
	"  shoal-coordinator rebuild run.json --backup run-key.backup --data data --dir run\n";

static enum err check(size_t n, const char *const *words, struct why *why)
{
	if (!n || strchr(words[0], '='))
		return err_why(why, ERR_usage,
			"no spec is given: shoal-coordinator rebuild SPEC --backup FILE --data DIR "
			"--dir DIR");
	if (!opt.backup)
		return err_why(why, ERR_usage, "--backup FILE is missing: the run key's backup");
	if (!opt.how.data)
		return err_why(why, ERR_usage,
			"--data DIR is missing: the folder that prepare made for this spec");
	if (!opt.how.dir)
		return err_why(why, ERR_usage, "--dir DIR is missing: the folder to make");
	return ERR_OK;
}

static enum err rebuild(const char *path, const char *const *sets, size_t n_sets, struct why *why)
{
	struct rebuild_outcome out;
	struct spec *spec = NULL;
	struct sign_key *key = NULL;
	char *passphrase = NULL, head[HASH_HEX], state[HASH_HEX];
	enum err err = spec_load(path, sets, n_sets, &spec, NULL, why);
	if (!err)
		err = passphrase_get(opt.passphrase_file, false, &passphrase, why);
	if (!err)
		err = backup_read(opt.backup, passphrase, &key, why);
	passphrase_free(passphrase);
	opt.how.spec = spec;
	opt.how.key = key;
	signal_watch();
	if (!err)
		err = rebuild_run(&opt.how, &out, why);
	if (!err) {
		hash_hex(&out.head.hash, head);
		hash_hex(&out.state, state);
		printf("rebuild: ok round=%llu entries=%llu tokens=%llu head=%s state=%s "
		       "members=%u "
		       "snapshot=%llu dir=%s\nStart the coordinator with this folder, on the "
		       "same ports: the run goes on.\n",
			(unsigned long long)out.head.round, (unsigned long long)out.head.sequence,
			(unsigned long long)out.tokens, head, state, out.members,
			(unsigned long long)out.snapshot_round, opt.how.dir);
	}
	sign_free(key);
	spec_free(spec);
	return err;
}

int command_rebuild(int argc, char **argv)
{
	const char *words[1 + SETS_MAX];
	size_t n = 0;
	struct why why = {0};
	const struct program_options options = {.program = COMMAND_PROGRAM,
		.rows = rows,
		.n_rows = N_ROWS,
		.about = about,
		.examples = examples,
		.words = words,
		.max_words = 1 + SETS_MAX};
	int status;
	if (!program_options(&options, argc, argv, &n, &status))
		return status;
	opt.how.port = (uint16_t)opt.port;
	opt.how.link_port = (uint16_t)opt.link_port;
	enum err err = check(n, words, &why);
	if (!err)
		err = rebuild(words[0], words + 1, n - 1, &why);
	return err ? program_fail(COMMAND_PROGRAM, argv[0], &why) : PROGRAM_ok;
}
