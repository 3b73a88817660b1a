#include "sim/tally.h"
#include <math.h>
#include <stdlib.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "coordinator/human.h"

void tally_release(struct tally *t)
{
	free(t->rounds);
	free(t->losses);
	*t = (struct tally){0};
}

void tally_round(struct tally *t, const struct tally_round *r)
{
	t->rounds = alloc_must_resize(t->rounds, t->n_rounds + 1, sizeof *t->rounds);
	t->rounds[t->n_rounds++] = *r;
}

void tally_loss(struct tally *t, const struct tally_loss *l)
{
	t->losses = alloc_must_resize(t->losses, t->n_losses + 1, sizeof *t->losses);
	t->losses[t->n_losses++] = *l;
}

void tally_refuse(struct tally *t, enum err code)
{
	t->refusals[(unsigned)code % TALLY_CODES]++;
}

uint64_t tally_refused(const struct tally *t)
{
	uint64_t n = 0;
	for (size_t i = 0; i < TALLY_CODES; i++)
		n += t->refusals[i];
	return n;
}

double tally_utilisation(const struct tally *t)
{
	return t->could > 0 ? (double)t->tokens / t->could : 0;
}

void tally_delay(struct tally *t, uint64_t round, double seconds)
{
	for (size_t i = t->n_rounds; i-- > 0;) {
		struct tally_round *r = &t->rounds[i];
		if (r->round != round)
			continue;
		r->delay_s += seconds;
		r->delays++;
		return;
	}
}

double tally_delay_of(const struct tally *t, size_t i)
{
	const struct tally_round *r = &t->rounds[i];
	const double length = r->at_s - (i ? t->rounds[i - 1].at_s : 0);
	return r->delays && length > 0 ? r->delay_s / (double)r->delays / length : 0;
}

double tally_delay_share(const struct tally *t)
{
	double sum = 0;
	uint64_t n = 0;
	for (size_t i = 0; i < t->n_rounds; i++) {
		sum += t->rounds[i].delay_s;
		n += t->rounds[i].delays;
	}
	const double length =
		t->n_rounds ? t->rounds[t->n_rounds - 1].at_s / (double)t->n_rounds : 0;
	return n && length > 0 ? sum / (double)n / length : 0;
}

static double last_loss(const struct tally *t)
{
	return t->n_losses ? t->losses[t->n_losses - 1].per_byte : NAN;
}

static void print_losses(const struct tally *t, FILE *to)
{
	if (!t->n_losses) {
		fprintf(to, "%-26s none was measured\n", "validation loss");
		return;
	}
	fprintf(to, "%-26s %.4f nats per byte after round %llu, %.4f after round %llu\n",
		"validation loss", t->losses[0].per_byte, (unsigned long long)t->losses[0].round,
		last_loss(t), (unsigned long long)t->losses[t->n_losses - 1].round);
}

static void print_refusals(const struct tally *t, FILE *to)
{
	fprintf(to, "%-26s %llu", "refusals", (unsigned long long)tally_refused(t));
	for (unsigned i = 0; i < TALLY_CODES; i++)
		if (t->refusals[i])
			fprintf(to, "  %s %llu", err_name((enum err)i),
				(unsigned long long)t->refusals[i]);
	fputc('\n', to);
}

void tally_print(const struct tally *t, FILE *to)
{
	char text[HUMAN_TEXT], up[HUMAN_TEXT], down[HUMAN_TEXT], length[24], head[HASH_HEX];
	uint64_t members = 0, dropped = 0;
	for (size_t i = 0; i < t->n_rounds; i++) {
		members += t->rounds[i].members;
		dropped += t->rounds[i].dropped;
	}
	clock_text((uint64_t)(t->virtual_s * (double)CLOCK_SECOND), length);
	fprintf(to, "%-26s %s, simulated in %.1f s\n", "time", length, t->real_s);
	fprintf(to, "%-26s %zu, of %.1f members; %llu contributions missed, %llu deaths\n",
		"rounds", t->n_rounds, t->n_rounds ? (double)members / (double)t->n_rounds : 0.0,
		(unsigned long long)dropped, (unsigned long long)t->deaths);
	fprintf(to, "%-26s %s\n", "tokens", human_count(t->tokens, text));
	fprintf(to, "%-26s %.1f %% of what the trainers could have done\n", "utilisation",
		100 * tally_utilisation(t));
	fprintf(to, "%-26s %s to the coordinator, %s from it\n", "bytes",
		human_size(t->up, "B", up), human_size(t->down, "B", down));
	fprintf(to, "%-26s %.3f, from a cut until it is applied\n", "delay / round",
		tally_delay_share(t));
	print_refusals(t, to);
	print_losses(t, to);
	hash_hex(&t->head, head);
	fprintf(to,
		"sim: ok rounds=%zu tokens=%llu loss=%.4f utilisation=%.3f delay=%.3f "
		"refusals=%llu head=%s\n",
		t->n_rounds, (unsigned long long)t->tokens, last_loss(t), tally_utilisation(t),
		tally_delay_share(t), (unsigned long long)tally_refused(t), head);
}

static json_t *rounds_json(const struct tally *t)
{
	json_t *list = json_array();
	for (size_t i = 0; i < t->n_rounds; i++) {
		const struct tally_round *r = &t->rounds[i];
		json_array_append_new(
			list, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f}", "round",
				      (json_int_t)r->round, "tokens", (json_int_t)r->tokens,
				      "members", (json_int_t)r->members, "dropped",
				      (json_int_t)r->dropped, "bytes_up", (json_int_t)r->up,
				      "bytes_down", (json_int_t)r->down, "took_s", r->took_s,
				      "at_s", r->at_s, "delay_per_round", tally_delay_of(t, i)));
	}
	return list;
}

static json_t *losses_json(const struct tally *t)
{
	json_t *list = json_array();
	for (size_t i = 0; i < t->n_losses; i++)
		json_array_append_new(list,
			json_pack("{s:I, s:I, s:f, s:f}", "round", (json_int_t)t->losses[i].round,
				"tokens", (json_int_t)t->losses[i].tokens, "nats_per_token",
				t->losses[i].per_token, "nats_per_byte", t->losses[i].per_byte));
	return list;
}

json_t *tally_json(const struct tally *t)
{
	char head[HASH_HEX];
	json_t *refusals = json_object();
	hash_hex(&t->head, head);
	for (unsigned i = 0; i < TALLY_CODES; i++)
		if (t->refusals[i])
			json_object_set_new(refusals, err_name((enum err)i),
				json_integer((json_int_t)t->refusals[i]));
	json_t *doc = json_pack("{s:s, s:I, s:I, s:f, s:f, s:I, s:I, s:I, s:f, s:f, s:o, s:o, s:o}",
		"head", head, "rounds", (json_int_t)t->n_rounds, "tokens", (json_int_t)t->tokens,
		"utilisation", tally_utilisation(t), "delay_per_round", tally_delay_share(t),
		"bytes_up", (json_int_t)t->up, "bytes_down", (json_int_t)t->down, "deaths",
		(json_int_t)t->deaths, "virtual_s", t->virtual_s, "real_s", t->real_s, "refusals",
		refusals, "each_round", rounds_json(t), "losses", losses_json(t));
	if (t->n_losses)
		json_object_set_new(doc, "nats_per_byte", json_real(last_loss(t)));
	return doc;
}
