#include "tests/help_study.h"
#include <stdio.h>
#include <stdlib.h>
#include "base/alloc.h"
#include "compress/frame.h"

struct why help_study_why;

void help_study_fine(enum err err)
{
	if (!err)
		return;
	fprintf(stderr, "study: failed: %s\n", help_study_why.text);
	exit(1);
}

static void open_crew(struct help_study *s, uint32_t c)
{
	const struct trainer_config how = {.spec = s->spec,
		.corpus = s->data.corpus,
		.training = true,
		.backend = "cpu",
		.threads = 1};
	help_study_fine(trainer_new(&how, &s->trainer[c], &help_study_why));
}

void help_study_open(struct help_study *s, const char *spec, const char *data,
	const char *const *changes, size_t n_changes)
{
	help_study_fine(spec_load(spec, changes, n_changes, &s->spec, NULL, &help_study_why));
	help_study_fine(dataset_open(data, s->spec, false, &s->data, &help_study_why));
	s->trainer = alloc_must_zero(s->crews, sizeof *s->trainer);
	s->feedback = alloc_must_zero(s->crews, sizeof *s->feedback);
	for (uint32_t c = 0; c < s->crews; c++)
		open_crew(s, c);
	s->n_shards = trainer_shards(s->trainer[0]);
	for (uint32_t i = 0; i < s->n_shards; i++) {
		s->n[i] = trainer_count(s->trainer[0], i);
		s->all += s->n[i];
		s->g[i] = alloc_must_zero(s->n[i], sizeof(float));
		s->momentum[i] = alloc_must_zero(s->n[i], sizeof(float));
		trainer_read(s->trainer[0], i, PARAMS_value, s->g[i]);
		const struct feedback_config how = {
			s->codec, s->rule.row, s->spec->codec.decay, i, s->n[i]};
		for (uint32_t c = 0; c < s->crews; c++)
			help_study_fine(feedback_new(&how, s->g[i], &s->feedback[c][i]));
	}
}

void help_study_close(struct help_study *s)
{
	for (uint32_t c = 0; c < s->crews; c++) {
		trainer_free(s->trainer[c]);
		for (uint32_t i = 0; i < s->n_shards; i++)
			feedback_free(s->feedback[c][i]);
	}
	for (uint32_t i = 0; i < s->n_shards; i++) {
		free(s->g[i]);
		free(s->momentum[i]);
	}
	free(s->trainer);
	free(s->feedback);
	dataset_release(&s->data);
	spec_free(s->spec);
}

double help_study_loss(const struct help_study *s)
{
	struct trainer_validation v;
	help_study_fine(trainer_validate(s->trainer[0], 0, &v, &help_study_why));
	return v.per_byte;
}

static void train(struct help_study *s, uint32_t crew)
{
	uint64_t batch = s->spec->train.batch, sequences[64];
	for (uint32_t step = 0; step < s->steps; step++) {
		double loss, lr = spec_lr(&s->spec->train,
				     s->tokens + step * s->spec->train.seq * batch * s->crews);
		for (uint64_t i = 0; i < batch; i++)
			sequences[i] = s->sequence++;
		help_study_fine(
			trainer_step(s->trainer[crew], sequences, lr, &loss, &help_study_why));
	}
}

/* What crew c sends of shard i. */
static void cut(struct help_study *s, uint32_t c, uint32_t i, struct codec_vector *out)
{
	float *w = alloc_must(s->n[i] * sizeof *w);
	struct planes planes;
	struct buf frame;
	trainer_read(s->trainer[c], i, PARAMS_value, w);
	planes_init(&planes, codec_bound(&s->codec, s->n[i]));
	help_study_fine(
		feedback_cut(s->feedback[c][i], s->tokens + i, w, &planes, &help_study_why));
	buf_init(&frame, frame_bound(planes.bytes.len));
	help_study_fine(frame_pack(&planes, &frame));
	s->bits += 8.0 * (double)frame.len;
	help_study_fine(codec_open(&s->codec, s->n[i], &planes.bytes, out, &help_study_why));
	s->norm += out->norm_squared;
	buf_release(&frame);
	planes_release(&planes);
	free(w);
}

static void join(struct help_study *s, uint32_t i, struct codec_vector *sent)
{
	struct rule_input *inputs = alloc_must_zero(s->crews, sizeof *inputs);
	for (uint32_t c = 0; c < s->crews; c++)
		inputs[c] = (struct rule_input){
			c + 1, s->steps * s->spec->train.batch * s->spec->train.seq, &sent[c]};
	struct rule_state state = {s->g[i], s->rule.row->momentum ? s->momentum[i] : NULL, s->n[i]};
	help_study_fine(rule_apply(&s->rule, inputs, s->crews, &state, &help_study_why));
	float *w = alloc_must(s->n[i] * sizeof *w);
	for (uint32_t c = 0; c < s->crews; c++) {
		trainer_read(s->trainer[c], i, PARAMS_value, w);
		help_study_fine(feedback_join(s->feedback[c][i], true, s->g[i], w));
		trainer_write(s->trainer[c], i, PARAMS_value, w);
		double e = feedback_error_norm(s->feedback[c][i]);
		s->off += e * e;
		codec_release(&sent[c]);
	}
	free(w);
	free(inputs);
}

void help_study_round(struct help_study *s)
{
	struct codec_vector *sent = alloc_must_zero(s->crews, sizeof *sent);
	for (uint32_t c = 0; c < s->crews; c++)
		train(s, c);
	for (uint32_t i = 0; i < s->n_shards; i++) {
		for (uint32_t c = 0; c < s->crews; c++)
			cut(s, c, i, &sent[c]);
		join(s, i, sent);
	}
	s->tokens += s->crews * s->steps * s->spec->train.batch * s->spec->train.seq;
	free(sent);
}
