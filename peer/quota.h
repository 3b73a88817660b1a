/*
 * How many bytes a volunteer's line may carry in a month or a day, both ways, and how many it has:
 * DIR/quota.json.  Months and days are those of the calendar in UTC.  What a process that is killed
 * had not written down yet (QUOTA_SAVE bytes, or what went in QUOTA_SAVE_S) is not counted.  One
 * thread.
 */
#ifndef PEER_QUOTA_H
#define PEER_QUOTA_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"

#define QUOTA_SAVE (8u << 20) /* bytes between two writes */
#define QUOTA_SAVE_S 10u      /* or seconds */
#define QUOTA_TEXT 200

enum quota_unit { QUOTA_month, QUOTA_day };

struct quota_wish {
	uint64_t most; /* bytes; 0: no quota, and nothing is counted or written */
	enum quota_unit unit;
};

struct quota {
	const char *dir; /* borrowed */
	struct quota_wish wish;
	uint64_t used, written;
	uint64_t seen;             /* of this process, when it was counted last */
	uint64_t now_s, written_s; /* when it was counted, and written, last */
	uint32_t period;           /* months since the year 0, or days since 1970 */
};

/* "50G/month", "2G/day", "0": none.  where ("--quota") begins the sentence. */
enum err quota_parse(
	const char *text, const char *where, struct quota_wish *out, struct why *why) MUST_CHECK;
/* What the folder knows of this period; another one's count is 0.  ERR_syntax names the file. */
enum err quota_open(struct quota *q, const char *dir, const struct quota_wish *wish,
	uint64_t wall_s, struct why *why) MUST_CHECK;
/* This process has sent and received so many bytes in all by now. */
void quota_count(struct quota *q, uint64_t bytes, uint64_t wall_s);
void quota_close(struct quota *q); /* writes down what is not written yet */
/* Whether it is used up, with the sentence: how much, and when it begins anew. */
bool quota_spent(const struct quota *q, char text[static QUOTA_TEXT]);
/* Seconds until the next period, as counted last; 0 without a quota. */
uint64_t quota_left_s(const struct quota *q);

#endif
