/*
 * How many bytes a volunteer's line may carry in a month, and how many it has: DIR/quota.json.  A
 * month is a calendar month in UTC.  What a process that is killed had not written down yet
 * (QUOTA_SAVE bytes at most) is not counted.  One thread.
 */
#ifndef PEER_QUOTA_H
#define PEER_QUOTA_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"

#define QUOTA_SAVE (8u << 20) /* bytes between two writes */
#define QUOTA_TEXT 200

struct quota {
	const char *dir; /* borrowed */
	uint64_t most;   /* bytes; 0: no quota, and nothing is counted or written */
	uint64_t used, written;
	uint64_t seen;  /* of this process, when it was counted last */
	uint32_t month; /* 12 times the year, and the month from 0 */
};

/* What the folder knows of this month; another month's count is 0.  ERR_syntax names the file. */
enum err quota_open(struct quota *q, const char *dir, uint64_t most, uint64_t wall_s,
	struct why *why) MUST_CHECK;
/* This process has sent and received so many bytes in all by now. */
void quota_count(struct quota *q, uint64_t bytes, uint64_t wall_s);
void quota_close(struct quota *q); /* writes down what is not written yet */
/* Whether it is used up, with the sentence: how much, and when it begins anew. */
bool quota_spent(const struct quota *q, char text[static QUOTA_TEXT]);

#endif
