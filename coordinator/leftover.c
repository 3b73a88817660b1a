#include "coordinator/leftover.h"
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>

/* The round that a file's name tells of; 0 for a name that is none of ours. */
static uint64_t round_of(const char *name)
{
	unsigned long long round = 0;
	int end = 0;
	if (sscanf(name, "shard-%*u-round-%llu.state%n", &round, &end) == 1 && end && !name[end])
		return round;
	end = 0;
	if (sscanf(name, "snapshot-%llu.state%n", &round, &end) == 1 && end && !name[end])
		return round;
	return 0;
}

/* The largest; 0 for none, also where there is no such folder. */
static uint64_t newest(const char *dir)
{
	uint64_t most = 0;
	DIR *d = opendir(dir);
	for (struct dirent *e; d && (e = readdir(d));)
		if (round_of(e->d_name) > most)
			most = round_of(e->d_name);
	if (d)
		closedir(d);
	return most;
}

enum err leftover_check(const struct leftover *l, uint64_t committed, struct why *why)
{
	uint64_t shards = newest(l->state_dir), snapshot = newest(l->dir),
		 round = shards > snapshot ? shards : snapshot;
	/* A round is written before it is committed. */
	if (round <= committed + 1)
		return ERR_OK;
	return err_why(why, ERR_state,
		"%s ends at round %" PRIu64 ", but %s holds files of round %" PRIu64
		": its newest part is lost (was it copied without its -wal file?).  Put back the "
		"newest backup of it, or, to give up what came after, move %s and %s/snapshot-* "
		"away",
		l->store, committed, l->dir, round, l->state_dir, l->dir);
}
