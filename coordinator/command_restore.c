/* shoal-coordinator restore: the run key, out of its backup. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/option.h"
#include "base/program.h"
#include "coordinator/commands.h"
#include "coordinator/store.h"
#include "net/backup.h"
#include "net/base64.h"
#include "net/identity.h"
#include "net/passphrase.h"
#include "net/signed.h"

static struct {
	const char *dir, *passphrase_file;
} opt;

static const struct option_row rows[] = {
	{"dir", OPTION_text, &opt.dir, NULL, 0, 0,
		"folder of the run; the key goes into keys/ in it"},
	{"passphrase-file", OPTION_text, &opt.passphrase_file, NULL, 0, 0,
		"file whose first line is the passphrase; else SHOAL_PASSPHRASE, else it is asked "
		"for"},
};
#define N_ROWS (sizeof rows / sizeof *rows)

static const char about[] =
	"shoal-coordinator restore FILE --dir DIR [--passphrase-file FILE]\n\n"
	"Puts the run key out of FILE, which shoal-coordinator backup wrote, into the folder "
	"of the run.\nA key that is there is kept, and so is everything else in the folder.  "
	"When the folder holds a\nrun, the key must be that run's.\n";

static const char examples[] = "  shoal-coordinator restore run-key.backup --dir run\n";

/* The head that the folder's ledger ends in is signed by this key. */
static enum err check_head(const char *store_path, const struct sign_key *key, struct why *why)
{
	struct store *store = NULL;
	struct sign_public public = sign_public_of(key);
	uint8_t *head = NULL;
	size_t n = 0;
	json_t *body = NULL;
	enum err err = store_open(store_path, &store, why);
	if (!err)
		err = store_get(store, "head", &head, &n, why);
	if (!err && signed_open(head, n, "head", public.b, &body, NULL))
		err = err_why(why, ERR_signature,
			"the key in this backup is not the one that signed what %s holds: it is of "
			"another run",
			store_path);
	else if (err == ERR_missing)
		err = ERR_OK; /* a run that was never begun */
	json_decref(body);
	free(head);
	store_close(store);
	return err;
}

static enum err put(const struct sign_key *key, struct why *why)
{
	char *keys = alloc_must_printf("%s/keys", opt.dir),
	     *store = alloc_must_printf("%s/store.sqlite", opt.dir);
	char text[BASE64_TEXT(SIGN_PUBLIC)];
	struct sign_public public = sign_public_of(key);
	bool run_there = file_exists(store);
	enum err err = run_there ? check_head(store, key, why) : ERR_OK;
	if (!err)
		err = identity_coordinator_make(keys, key, why);
	if (!err) {
		base64_encode(public.b, sizeof public.b, text);
		printf("restore: ok key=%s dir=%s\n%s\n", text, opt.dir,
			run_there
				? "Start the coordinator with this folder: the run goes on."
				: "The folder holds no run: put store.sqlite, blobs and state from "
				  "a copy beside the keys.\nWithout them a run with this key "
				  "begins at round 0.");
	}
	free(keys);
	free(store);
	return err;
}

static enum err restore(const char *file, struct why *why)
{
	struct sign_key *key = NULL;
	char *passphrase = NULL;
	enum err err = passphrase_get(opt.passphrase_file, false, &passphrase, why);
	if (!err)
		err = backup_read(file, passphrase, &key, why);
	if (!err)
		err = put(key, why);
	passphrase_free(passphrase);
	sign_free(key);
	return err;
}

int command_restore(int argc, char **argv)
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
		!n         ? err_why(&why, ERR_usage,
				     "no backup is given: shoal-coordinator restore FILE --dir DIR")
		: !opt.dir ? err_why(&why, ERR_usage, "--dir DIR is missing: the folder of the run")
			   : restore(words[0], &why);
	return err ? program_fail(COMMAND_PROGRAM, argv[0], &why) : PROGRAM_ok;
}
