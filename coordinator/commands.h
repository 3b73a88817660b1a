/* The subcommands of shoal-coordinator: one row each, one file each (coordinator/command_WORD.c
 * exports command_WORD). */
#ifndef COORDINATOR_COMMANDS_H
#define COORDINATOR_COMMANDS_H

/* X(word, what follows it, one line of help) */
#define COMMAND_LIST(X) \
	X(serve, "SPEC --data DIR --dir DIR", "run the training of SPEC, for peers and a page") \
	X(invite, "create|list|revoke DIR", "make and look after the links that let peers join") \
	X(status, "DIR", "what a running coordinator does, and why it waits") \
	X(plan, "DIR|--from FILE", "who aggregates, and why") \
	X(replay, "DIR [--verify]", "compute the model again from the ledger, and compare") \
	X(prepare, "TEXT... --out DIR", "turn text into tokens to train on") \
	X(inspect, "KIND FILE...", "show what is in a spec, a model, a snapshot or another file") \
	X(export, "STATE --out DIR", "write a model for other tools (Hugging Face's layout)") \
	X(backup, "DIR --out FILE", "the run key in a file that a passphrase protects") \
	X(restore, "FILE --dir DIR", "the run key back out of such a file") \
	X(rebuild, "SPEC --backup FILE ...", "a lost folder of a run again, from its peers")

#define COMMAND_PROGRAM "shoal-coordinator"

/* Each returns an enum program_status. */
#define X(word, args, help) int command_##word(int argc, char **argv);
COMMAND_LIST(X)
#undef X

#endif
