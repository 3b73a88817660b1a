/*
 * Whether one outer rule with one step does for few peers and for many: so many crews train on so
 * many tokens in all, and the loss of what they come to is printed.  One process is one run;
 * tests/study_peers.sh has the rows.
 *
 *   study_peers SPEC DATA SEED PEERS RULE LR MOMENTUM SELECT VALUES CHUNK K
 */
#include <stdio.h>
#include <stdlib.h>
#include "tests/help_study.h"

#define STEPS 5u
#define PEERS_MOST 1024

static unsigned number(const char *text, unsigned most)
{
	const unsigned long n = strtoul(text, NULL, 10);
	return n > most ? most : (unsigned)n;
}

int main(int argc, char **argv)
{
	char set[40];
	const char *sets[] = {set, "train.total_tokens=1638400", "train.warmup_tokens=81920"};
	struct help_study s = {.steps = STEPS};
	if (argc != 12) {
		fprintf(stderr, "usage: study_peers SPEC DATA SEED PEERS RULE LR MOMENTUM SELECT "
				"VALUES CHUNK K\n");
		return 2;
	}
	snprintf(set, sizeof set, "seed=%u", number(argv[3], UINT32_MAX));
	s.crews = number(argv[4], PEERS_MOST);
	help_study_fine(rule_find(
		argv[5], strtod(argv[6], NULL), strtod(argv[7], NULL), &s.rule, &help_study_why));
	const struct codec_words words = {argv[8], argv[9], false, number(argv[10], UINT32_MAX),
		number(argv[11], UINT32_MAX), 0};
	help_study_fine(codec_find(&words, &s.codec, &help_study_why));
	help_study_open(&s, argv[1], argv[2], sets, 3);
	while (s.tokens < s.spec->train.total_tokens)
		help_study_round(&s);
	printf("%.4f %llu\n", help_study_loss(&s), (unsigned long long)s.tokens);
	help_study_close(&s);
	return 0;
}
