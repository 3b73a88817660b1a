/* The subcommand that runs a scenario.  Returns an enum program_status. */
#ifndef SIM_COMMAND_RUN_H
#define SIM_COMMAND_RUN_H

#define COMMAND_RUN_PROGRAM "shoal-sim"

int command_run(int argc, char **argv);

#endif
