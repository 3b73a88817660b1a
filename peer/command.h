/* The subcommands of shoal-peer: one row each, one file each (peer/NAME.c exports NAME_command). */
#ifndef PEER_COMMAND_H
#define PEER_COMMAND_H

/* X(word, one line of help, what follows the word) */
#define COMMAND_LIST(X) \
	X(join, "[LINK]", "take part in a run") \
	X(status, "[--dir DIR]", "what the peer of a folder does, and why it idles") \
	X(local, "SPEC --data DIR --dir DIR", \
		"train alone from a spec, resuming where it stopped") \
	X(eval, "STATE --data DIR", "validation loss of a saved state") \
	X(generate, "STATE --data DIR", "write text with a saved state") \
	X(bench, "[SPEC]", "what this machine computes: devices, tokens per second")

/* Each returns the process's exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted. */
#define X(word, args, help) int word##_command(int argc, char **argv);
COMMAND_LIST(X)
#undef X

#endif
