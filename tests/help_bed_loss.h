/*
 * Time to a validation loss on the bed `home`: a run of four peers, and four ranks of a dense
 * all-reduce in every step, whose time is its steps to that loss without emulation times the time
 * of its steps on the bed.  The better of ours (bench_allreduce, bfloat16 on the wire) and of
 * PyTorch's DDP over gloo with its fp16 hook (where it is installed; TORCH=python, or none).
 * Where four peers have fewer than four cores, links and clock are slowed down alike (SLOW=1: not).
 */
#ifndef TESTS_HELP_BED_LOSS_H
#define TESTS_HELP_BED_LOSS_H
#include <jansson.h>
#include <stdbool.h>

struct help_bed_loss {
	double target;    /* nats per byte */
	double seconds;   /* of the run, from the opening of its first round */
	double steps;     /* of the all-reduce */
	double step_s[2]; /* bf16, DDP; not finite: not measured */
	double ratio;     /* baseline over run */
};
/* Adds "loss" to the figures.  is_short: a loss that is reached at once. */
void help_bed_loss_run(bool is_short, struct help_bed_loss *out, json_t *figures);

#endif
