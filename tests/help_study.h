/* Crews that train for real and exchange what they have learned without a network, one after the
 * other, in one thread: what studies of codecs and rules are made of.  What fails ends the program
 * with a sentence. */
#ifndef TESTS_HELP_STUDY_H
#define TESTS_HELP_STUDY_H
#include <stdint.h>
#include "compress/codec.h"
#include "peer/dataset.h"
#include "peer/trainer.h"
#include "round/feedback.h"
#include "round/rule.h"

#define HELP_STUDY_SHARDS 8u

struct help_study {
	/* set by the caller */
	uint32_t crews, steps; /* each crew's, of a round */
	struct codec_params codec;
	struct rule_params rule;
	/* by help_study_open */
	struct spec *spec;
	struct dataset data;
	uint32_t n_shards;
	size_t n[HELP_STUDY_SHARDS], all;
	float *g[HELP_STUDY_SHARDS], *momentum[HELP_STUDY_SHARDS];
	struct trainer **trainer;
	struct feedback *(*feedback)[HELP_STUDY_SHARDS];
	uint64_t sequence, tokens;
	/* measured */
	double bits;      /* in frames, of all contributions */
	double off, norm; /* squares: of what the codec lost, and of all it was given */
};

extern struct why help_study_why;
void help_study_fine(enum err err);

/* changes: of the spec, as spec_load takes them. */
void help_study_open(struct help_study *s, const char *spec, const char *data,
	const char *const *changes, size_t n_changes);
void help_study_round(struct help_study *s);
double help_study_loss(const struct help_study *s); /* of G, nats per byte; all crews stand there */
void help_study_close(struct help_study *s);

#endif
