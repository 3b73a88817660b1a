/* The subcommands of shoal-peer: one row each, one file each (peer/NAME.c exports NAME_command). */
#ifndef PEER_COMMAND_H
#define PEER_COMMAND_H

#define COMMAND_PROGRAM "shoal-peer"

/* X(word, what follows it, one line of help) */
#define COMMAND_LIST(X) \
	X(join, "[LINK]", "take part in a run") \
	X(status, "[--dir DIR]", "what the peer of a folder does, and why it idles") \
	X(local, "SPEC --data DIR --dir DIR", \
		"train alone from a spec, resuming where it stopped") \
	X(eval, "STATE --data DIR", "validation loss of a saved state") \
	X(generate, "STATE --data DIR", "write text with a saved state") \
	X(upnp, "--port PORT", "ask the router to open a port") \
	X(bench, "[SPEC]", "what this machine computes: devices, tokens per second")

/* Each returns an enum program_status. */
#define X(word, args, help) int word##_command(int argc, char **argv);
COMMAND_LIST(X)
#undef X

#endif
