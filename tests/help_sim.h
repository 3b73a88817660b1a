/* A small run to simulate: text, data, spec and scenarios in a scratch folder.  One thread. */
#ifndef TESTS_HELP_SIM_H
#define TESTS_HELP_SIM_H
#include "base/err.h"

/* For cmocka: the folder with "data" and "run.json", a GPT of two shards with fixed-step rounds of
 * five steps and 64 tokens each; removed with all that it holds. */
int help_sim_setup(void **state);
int help_sim_teardown(void **state);
/* A scenario file there: {"spec": ..., "data": ..., "seed": 1, REST}.  Valid until the next call.
 */
const char *help_sim_scenario(const char *rest);
void help_sim_fine(enum err err, const struct why *why);

#endif
