/* shoal-sim: a run without a network, to plan one before anybody pays for it. */
#include "base/program.h"
#include "sim/command_run.h"

static const struct program_command commands[] = {
	{"run", "SCENARIO.json",
		"train under a virtual clock, with the scenario's machines and links", command_run},
};

int main(int argc, char **argv)
{
	const struct program program = {
		.name = COMMAND_RUN_PROGRAM,
		.purpose = "simulates the training of a neural network on many machines",
		.commands = commands,
		.n_commands = sizeof commands / sizeof *commands,
	};
	return program_main(&program, argc, argv);
}
