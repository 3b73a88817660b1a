/* shoal-coordinator: starts and watches runs; its other tools work on files, without a network. */
#include "base/program.h"
#include "coordinator/commands.h"

static const struct program_command commands[] = {
#define X(word, args, help) {#word, args, help, command_##word},
	COMMAND_LIST(X)
#undef X
};

int main(int argc, char **argv)
{
	const struct program program = {
		.name = COMMAND_PROGRAM,
		.purpose = "runs the training of a neural network on many machines",
		.commands = commands,
		.n_commands = sizeof commands / sizeof *commands,
	};
	return program_main(&program, argc, argv);
}
