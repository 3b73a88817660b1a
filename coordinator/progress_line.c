#include "coordinator/progress_line.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "coordinator/hub_topology.h"
#include "coordinator/human.h"
#include "coordinator/pace.h"
#include "coordinator/reason.h"
#include "coordinator/snapshot.h"

#define TELL_AFTER (3 * CLOCK_SECOND)

static bool terminal(void)
{
	return isatty(STDERR_FILENO);
}

static const char *loss_text(const struct store_loss *l, bool have, char out[static 24])
{
	snprintf(out, 24, "none");
	if (have)
		snprintf(out, 24, "%.4f", l->nats_per_byte);
	return out;
}

/* Without a terminal a wait is told once it lasts, and again when its reason changes. */
static void tell_wait(const struct hub *h, const char *reason, uint64_t now)
{
	static char last[REASON_TEXT];
	static uint64_t since, round; /* a round may be shorter than the time between two looks */
	static bool told;
	bool waits = rounds_ask_state(h->rounds) == ROUNDS_waiting;
	if (!waits || strcmp(reason, last) != 0 || round != rounds_ask_round(h->rounds)) {
		snprintf(last, sizeof last, "%s", waits ? reason : "");
		since = now;
		round = rounds_ask_round(h->rounds);
		told = false;
	} else if (!told && now - since >= TELL_AFTER) {
		log_at(coord, 1, "%s", reason);
		told = true;
	}
}

void progress_line_show(const struct hub *h, uint64_t now)
{
	static uint64_t shown;
	char reason[REASON_TEXT], tokens[HUMAN_TEXT], total[HUMAN_TEXT], loss[24], left[24] = "?";
	if (now - shown < CLOCK_SECOND / 2)
		return;
	shown = now;
	reason_text(h->rounds, h->run.spec, now, reason);
	if (!terminal()) {
		tell_wait(h, reason, now);
		return;
	}
	double eta = pace_left_s(h);
	if (isfinite(eta))
		clock_text((uint64_t)(eta * (double)CLOCK_SECOND), left);
	fprintf(stderr, "\r\033[Kround %llu  %s of %s tokens  loss %s  %s left  %.60s",
		(unsigned long long)rounds_ask_round(h->rounds),
		human_size(ledger_tokens(h->run.ledger), "", tokens),
		human_size(h->run.spec->train.total_tokens, "", total),
		loss_text(&h->last_loss, h->have_loss, loss), left, reason);
}

void progress_line_end(void)
{
	if (terminal())
		fputs("\r\033[K", stderr);
}

void progress_line_round(const struct hub *h, const struct store_round *r)
{
	char took[24], loss[40] = "";
	if (terminal())
		return;
	clock_text(r->took_ns, took);
	if (r->nats_per_byte > 0)
		snprintf(loss, sizeof loss, ", training loss %.4f", r->nats_per_byte);
	log_at(round, 1, "round %llu: %u member%s, %llu of %llu tokens, %s%s",
		(unsigned long long)r->round, r->members, r->members == 1 ? "" : "s",
		(unsigned long long)r->total_tokens,
		(unsigned long long)h->run.spec->train.total_tokens, took, loss);
}

void progress_line_loss(const struct hub *h, const struct store_loss *l)
{
	(void)h;
	if (!terminal())
		log_at(round, 1,
			"validation loss after round %llu: %.4f nats per byte, %.4f per token",
			(unsigned long long)l->round, l->nats_per_byte, l->nats_per_token);
}

/* "none" for a figure that could not be had. */
static const char *figure(double v, char out[static 24])
{
	snprintf(out, 24, "none");
	if (isfinite(v))
		snprintf(out, 24, "%.3f", v);
	return out;
}

void progress_line_outcome(const struct hub *h, const char *word)
{
	char run[HASH_HEX], hex[HASH_HEX], state[HASH_HEX], start[24], end[24], share[24], up[24],
		down[24];
	struct ledger_head head = run_head(&h->run);
	struct hash all = run_state(&h->run);
	uint64_t tokens = ledger_tokens(h->run.ledger), least = UINT64_MAX;
	for (uint32_t i = 0; i < ledger_peers(h->run.ledger); i++) {
		uint64_t one = ledger_account(h->run.ledger, i).tokens;
		least = one < least ? one : least;
	}
	hash_hex(&h->run.spec->id, run);
	hash_hex(&head.hash, hex);
	hash_hex(&all, state);
	char *snapshot = snapshot_path(h->run.dir, head.round);
	printf("serve: %s run=%.12s rounds=%llu entries=%llu tokens=%llu start_loss=%s "
	       "val_loss=%s peers=%u min_share=%s bits_per_param_up=%s bits_per_param_down=%s "
	       "aggregated=%llu head=%s state=%s snapshot=%s\n",
		word, run, (unsigned long long)head.round, (unsigned long long)head.sequence,
		(unsigned long long)tokens, loss_text(&h->first_loss, h->have_loss, start),
		loss_text(&h->last_loss, h->have_loss, end), ledger_peers(h->run.ledger),
		figure(tokens ? (double)least / (double)tokens : NAN, share),
		figure(pace_bits_up(h), up), figure(pace_bits_down(h), down),
		(unsigned long long)hub_topology_aggregated(h), hex, state,
		access(snapshot, R_OK) ? "none" : snapshot);
	fflush(stdout);
	free(snapshot);
}
