/* shoal-coordinator backup: the run key, in a file to be kept elsewhere. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/alloc.h"
#include "base/option.h"
#include "base/program.h"
#include "coordinator/commands.h"
#include "net/backup.h"
#include "net/base64.h"
#include "net/identity.h"
#include "net/passphrase.h"

static struct {
	const char *out, *passphrase_file;
} opt;

static const struct option_row rows[] = {
	{"out", OPTION_text, &opt.out, NULL, 0, 0, "file to write; one that is there is kept"},
	{"passphrase-file", OPTION_text, &opt.passphrase_file, NULL, 0, 0,
		"file whose first line is the passphrase; else SHOAL_PASSPHRASE, else it is asked "
		"for"},
};
#define N_ROWS (sizeof rows / sizeof *rows)

static const char about[] =
	"shoal-coordinator backup DIR --out FILE [--passphrase-file FILE]\n\n"
	"Writes the run key of the run in DIR into a file that a passphrase protects.  Keep "
	"the file and\nthe passphrase in two places, neither of them this machine: "
	"shoal-coordinator restore brings the\nkey back.  The run may be served "
	"meanwhile.\n";

static const char examples[] = "  shoal-coordinator backup run --out run-key.backup\n";

static enum err backup(const char *dir, struct why *why)
{
	struct identity_coordinator keys = {0};
	char *passphrase = NULL, *folder = alloc_must_printf("%s/keys", dir);
	char key[BASE64_TEXT(SIGN_PUBLIC)];
	enum err err = identity_coordinator_open(folder, &keys, why);
	if (!err)
		err = passphrase_get(opt.passphrase_file, true, &passphrase, why);
	if (!err)
		err = backup_write(opt.out, keys.run, passphrase, why);
	if (!err) {
		struct sign_public public = sign_public_of(keys.run);
		base64_encode(public.b, sizeof public.b, key);
		printf("backup: ok key=%s file=%s\n", key, opt.out);
	}
	passphrase_free(passphrase);
	identity_coordinator_release(&keys);
	free(folder);
	return err;
}

int command_backup(int argc, char **argv)
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
	enum err err = !n         ? err_why(&why, ERR_usage,
					    "no folder is given: shoal-coordinator backup DIR --out FILE")
		       : !opt.out ? err_why(&why, ERR_usage,
					    "--out FILE is missing: where the backup shall be")
				  : backup(words[0], &why);
	return err ? program_fail(COMMAND_PROGRAM, argv[0], &why) : PROGRAM_ok;
}
