#include "peer/quota.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/option_value.h"

#define FILE_MOST 4096u
#define BYTES_MOST ((int64_t)1 << 60)
#define PERIOD_MOST 10000000 /* days and months of ten thousand years */
#define DAY_S 86400ull
#define QUOTA_LEAST (1u << 16) /* bytes */

static const char *const units[] = {[QUOTA_month] = "month", [QUOTA_day] = "day", NULL};

static uint32_t period_of(enum quota_unit unit, uint64_t wall_s)
{
	struct tm tm;
	const time_t t = (time_t)wall_s;
	if (unit == QUOTA_day)
		return (uint32_t)(wall_s / DAY_S);
	if (!gmtime_r(&t, &tm))
		return 0;
	return 12 * (uint32_t)(tm.tm_year + 1900) + (uint32_t)tm.tm_mon;
}

/* The first second of a period. */
static uint64_t begin_of(enum quota_unit unit, uint32_t period)
{
	struct tm tm = {
		.tm_year = (int)(period / 12) - 1900, .tm_mon = (int)(period % 12), .tm_mday = 1};
	const time_t t = timegm(&tm);
	if (unit == QUOTA_day)
		return period * DAY_S;
	return t > 0 ? (uint64_t)t : 0;
}

enum err quota_parse(const char *text, const char *where, struct quota_wish *out, struct why *why)
{
	char size[40];
	const char *slash = strchr(text, '/');
	*out = (struct quota_wish){0};
	if (strcmp(text, "0") == 0)
		return ERR_OK;
	const size_t n = slash ? (size_t)(slash - text) : 0;
	if (slash && strcmp(slash + 1, units[QUOTA_day]) == 0)
		out->unit = QUOTA_day;
	else if (!slash || n >= sizeof size || strcmp(slash + 1, units[QUOTA_month]) != 0)
		return err_why(why, ERR_syntax,
			"%s: \"%.60s\" is no quota: write a size and a time, as in 50G/month or "
			"2G/day",
			where, text);
	memcpy(size, text, n);
	size[n] = 0;
	const struct option_row row = {
		"quota", OPTION_bytes, &out->most, NULL, QUOTA_LEAST, (double)BYTES_MOST, NULL};
	return option_value_set(&row, size, where, why);
}

static char *path_of(const struct quota *q)
{
	return alloc_must_printf("%s/quota.json", q->dir);
}

static enum err read_file(const char *path, struct quota *found, struct why *why)
{
	uint8_t *bytes = NULL;
	size_t n = 0;
	json_t *doc = NULL;
	struct buf mistakes;
	struct json_in in;
	enum err err = file_read(path, FILE_MOST, &bytes, &n, why);
	if (!err)
		err = json_parse(bytes, n, FILE_MOST, &doc, why);
	free(bytes);
	if (err)
		return err;
	buf_init(&mistakes, FILE_MOST);
	json_in_init(&in, doc, "", &mistakes);
	found->wish.unit = (enum quota_unit)json_get_choice(&in, "unit", units, NULL);
	found->period = (uint32_t)json_get_int(&in, "period", 0, PERIOD_MOST, NULL);
	found->used = (uint64_t)json_get_int(&in, "bytes", 0, BYTES_MOST, NULL);
	json_in_finish(&in);
	err = json_verdict(&mistakes, path, why);
	buf_release(&mistakes);
	json_decref(doc);
	return err;
}

/* A count that cannot be written is not lost while the process lives. */
static void save(struct quota *q)
{
	char text[96], *path = path_of(q);
	struct why why;
	snprintf(text, sizeof text, "{\"unit\":\"%s\",\"period\":%u,\"bytes\":%llu}\n",
		units[q->wish.unit], q->period, (unsigned long long)q->used);
	if (file_write(path, text, strlen(text), 0600, &why))
		log_warn(peer, "the count of bytes for --quota is not written down: %s", why.text);
	q->written = q->used;
	q->written_s = q->now_s;
	free(path);
}

enum err quota_open(struct quota *q, const char *dir, const struct quota_wish *wish,
	uint64_t wall_s, struct why *why)
{
	struct quota found = {0};
	*q = (struct quota){.dir = dir,
		.wish = *wish,
		.period = period_of(wish->unit, wall_s),
		.now_s = wall_s,
		.written_s = wall_s};
	char *path = path_of(q);
	enum err err = wish->most && file_exists(path) ? read_file(path, &found, why) : ERR_OK;
	free(path);
	if (!err && found.wish.unit == wish->unit && found.period == q->period)
		q->used = q->written = found.used;
	return err;
}

void quota_count(struct quota *q, uint64_t bytes, uint64_t wall_s)
{
	const uint32_t period = period_of(q->wish.unit, wall_s);
	const uint64_t more = bytes > q->seen ? bytes - q->seen : 0;
	q->seen = bytes;
	if (!q->wish.most)
		return;
	q->now_s = wall_s;
	if (period > q->period) { /* a clock that is set back begins none again */
		q->period = period;
		q->used = q->written = 0;
	}
	q->used += more;
	const uint64_t unwritten = q->used - q->written;
	const bool late = wall_s < q->written_s || wall_s - q->written_s >= QUOTA_SAVE_S;
	if (unwritten >= QUOTA_SAVE || (unwritten && late))
		save(q);
}

void quota_close(struct quota *q)
{
	if (q->wish.most && q->used != q->written)
		save(q);
}

bool quota_spent(const struct quota *q, char text[static QUOTA_TEXT])
{
	text[0] = 0;
	if (!q->wish.most || q->used < q->wish.most)
		return false;
	char date[16];
	const double most = (double)q->wish.most;
	const bool large = most >= 1e9;
	struct tm tm = {0};
	const time_t next = (time_t)begin_of(q->wish.unit, q->period + 1);
	gmtime_r(&next, &tm);
	strftime(date, sizeof date, "%Y-%m-%d", &tm);
	snprintf(text, QUOTA_TEXT,
		"the %s's quota of %.3g %s is used up; it goes on by itself on %s at 0:00 (UTC), "
		"or when it is started with a larger --quota",
		units[q->wish.unit], most / (large ? 1e9 : 1e6), large ? "GB" : "MB", date);
	return true;
}

uint64_t quota_left_s(const struct quota *q)
{
	const uint64_t next = begin_of(q->wish.unit, q->period + 1);
	return q->wish.most && next > q->now_s ? next - q->now_s : 0;
}
