#include "peer/quota.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"

#define FILE_MOST 4096u
#define BYTES_MOST ((int64_t)1 << 60)
#define MONTH_MOST (12 * 10000)

static uint32_t month_of(uint64_t wall_s)
{
	struct tm tm;
	const time_t t = (time_t)wall_s;
	if (!gmtime_r(&t, &tm))
		return 0;
	return 12 * (uint32_t)(tm.tm_year + 1900) + (uint32_t)tm.tm_mon;
}

static char *path_of(const struct quota *q)
{
	return alloc_must_printf("%s/quota.json", q->dir);
}

static enum err read_file(const char *path, uint32_t *month, uint64_t *used, struct why *why)
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
	*month = (uint32_t)json_get_int(&in, "month", 0, MONTH_MOST, NULL);
	*used = (uint64_t)json_get_int(&in, "bytes", 0, BYTES_MOST, NULL);
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
	snprintf(text, sizeof text, "{\"month\":%u,\"bytes\":%llu}\n", q->month,
		(unsigned long long)q->used);
	if (file_write(path, text, strlen(text), 0600, &why))
		log_warn(peer, "the month's count of bytes is not written down: %s", why.text);
	q->written = q->used;
	free(path);
}

enum err quota_open(
	struct quota *q, const char *dir, uint64_t most, uint64_t wall_s, struct why *why)
{
	uint32_t month = 0;
	uint64_t used = 0;
	*q = (struct quota){.dir = dir, .most = most, .month = month_of(wall_s)};
	char *path = path_of(q);
	enum err err = most && file_exists(path) ? read_file(path, &month, &used, why) : ERR_OK;
	free(path);
	if (!err && month == q->month)
		q->used = q->written = used;
	return err;
}

void quota_count(struct quota *q, uint64_t bytes, uint64_t wall_s)
{
	const uint32_t month = month_of(wall_s);
	const uint64_t more = bytes > q->seen ? bytes - q->seen : 0;
	q->seen = bytes;
	if (!q->most)
		return;
	if (month > q->month) { /* a clock that is set back begins no month again */
		q->month = month;
		q->used = q->written = 0;
	}
	q->used += more;
	if (q->used - q->written >= QUOTA_SAVE)
		save(q);
}

void quota_close(struct quota *q)
{
	if (q->most && q->used != q->written)
		save(q);
}

bool quota_spent(const struct quota *q, char text[static QUOTA_TEXT])
{
	const uint32_t next = q->month + 1;
	text[0] = 0;
	if (!q->most || q->used < q->most)
		return false;
	snprintf(text, QUOTA_TEXT,
		"this month's quota of %.3g GB is used up; it goes on by itself on %04u-%02u-01 "
		"(UTC), or at once with a larger --quota",
		(double)q->most / 1e9, next / 12, next % 12 + 1);
	return true;
}
