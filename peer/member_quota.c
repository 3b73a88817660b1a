/* What a volunteer's line may carry: counted while the peer takes part, and waited for when it is
 * used up. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/signal.h"
#include "peer/member_parts.h"
#include "peer/quota.h"

#define LOOK_MS 500

static void count(const struct member_config *c)
{
	quota_count(c->quota, atomic_load(&c->traffic->bytes), clock_wall_s());
}

static void describe(const struct quota *q, char out[static STATUSFILE_TEXT])
{
	snprintf(out, STATUSFILE_TEXT, "%.1f of %.1f MB this %s", (double)q->used / 1e6,
		(double)q->wish.most / 1e6, q->wish.unit == QUOTA_day ? "day" : "month");
}

void member_quota_count(struct member *m)
{
	const struct member_config *c = m->config;
	if (!c->quota || !c->quota->wish.most)
		return;
	count(c);
	describe(c->quota, m->status.quota);
	m->spent = quota_spent(c->quota, m->spent_why);
	m->rate.quota_s = (double)quota_left_s(c->quota);
	m->rate.quota_bytes = c->quota->used < c->quota->wish.most
				      ? (double)(c->quota->wish.most - c->quota->used)
				      : 0;
}

/* What `shoal-peer status` says meanwhile. */
static void show(const struct member_config *c, const char *text)
{
	struct why why;
	struct statusfile s = {.pid = getpid(), .written_s = clock_wall_s(), .state = "parked"};
	snprintf(s.name, sizeof s.name, "%s", c->name);
	snprintf(s.coordinator, sizeof s.coordinator, "%.120s", c->link->host);
	hash_hex(&c->link->run, s.run);
	snprintf(s.reason, sizeof s.reason, "%s", text);
	describe(c->quota, s.quota);
	if (statusfile_write(c->dir, &s, &why))
		log_at(peer, 3, "%s", why.text);
}

enum err member_quota_wait(const struct member_config *c, struct why *why)
{
	char text[QUOTA_TEXT];
	bool said = false;
	if (!c->quota)
		return ERR_OK;
	struct pollfd asked = {.fd = signal_fd(), .events = POLLIN};
	for (count(c); quota_spent(c->quota, text); count(c)) {
		if (!said)
			log_at(peer, 1, "parked: %s", text);
		said = true;
		quota_close(c->quota);
		show(c, text);
		(void)poll(&asked, 1, LOOK_MS);
		if (signal_asked())
			return err_why(why, ERR_interrupted, "stopped by its user");
	}
	if (said)
		log_at(peer, 1, "a new %s has begun: it goes on",
			c->quota->wish.unit == QUOTA_day ? "day" : "month");
	return ERR_OK;
}
