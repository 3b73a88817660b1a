/* shoal-peer: trains a share of a model on this machine; its other tools work alone. */
#include <unistd.h>
#include "base/program.h"
#include "base/signal.h"
#include "kernels/cpu/blas.h"
#include "peer/command.h"

static const struct program_command commands[] = {
#define X(word, args, help) {#word, args, help, word##_command},
	COMMAND_LIST(X)
#undef X
};

int main(int argc, char **argv)
{
	const struct program program = {
		.name = COMMAND_PROGRAM,
		.purpose = "trains a share of a neural network together with others",
		.commands = commands,
		.n_commands = sizeof commands / sizeof *commands,
	};
	signal_watch(); /* every command stops cleanly at a step's end */
	int status = program_main(&program, argc, argv);
	/* OpenBLAS's own threads, which nobody uses, ask for memory from the first moment until
	 * they get some, and leaving by exit would wait for them. */
	if (!blas_has_room(1))
		_exit(status);
	return status;
}
