/* A newcomer takes the snapshot and the ledger from other peers; some of them lie, or die. */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/clock.h"
#include "tests/help_relay.h"
#include "tests/help_run.h"
#include "tests/help_swarm.h"

#define WAIT 120

/* 1.9 million parameters: a snapshot of 7.5 MB, in 8 pieces. */
static const char *const changes[] = {"timed", "round.seconds=6", "round.snapshot_every=2",
	"model.width=256", "model.heads=4", "model.layers=2", NULL};

static struct proc *giver(const struct swarm *s, const char *name, const char *rate)
{
	return PROC_START("shoal-peer", "join", s->link, "--dir",
		proc_text("%s/%s", s->scratch, name), "--name", name, "--threads", "1", "--listen",
		"127.0.0.1:0", "--give", rate);
}

/* The largest blob on this peer's shelf: its newest snapshot or the one before; "" for none. */
static const char *picture(const struct swarm *s, const char *name)
{
	const char *dir = proc_text("%s/%s/shelf/blobs", s->scratch, name), *most = "";
	off_t size = 1 << 20;
	DIR *d = opendir(dir);
	for (struct dirent *e; d && (e = readdir(d));) {
		struct stat st;
		const char *path = proc_text("%s/%s", dir, e->d_name);
		if (!stat(path, &st) && st.st_size > size) {
			size = st.st_size;
			most = path;
		}
	}
	if (d)
		closedir(d);
	return most;
}

/* Until each keeps a snapshot to give. */
static void stocked(const struct swarm *s, const char *const *names)
{
	uint64_t deadline = clock_now_ns() + 40 * CLOCK_SECOND;
	for (; *names; names++)
		while (!*picture(s, *names)) {
			if (clock_now_ns() > deadline)
				fail_msg("%s keeps no snapshot:\n%s", *names,
					proc_err(s->coordinator));
			(void)proc_out(s->coordinator); /* keeps its pipes empty */
			poll(NULL, 0, 50);              /* between two looks */
		}
}

/* Megabytes and peers of "1.23 MB came from 2 other peers (0 were left)". */
static void shares(struct proc *late, double *mb, unsigned *peers, unsigned *left)
{
	const char *line = proc_line(late, "MB came from", WAIT),
		   *at = strstr(line, " MB came from");
	while (at > line && at[-1] != ' ')
		at--;
	assert_int_equal(sscanf(at, "%lf MB came from %u other peers (%u", mb, peers, left), 3);
}

static uint64_t open_round(const struct swarm *s)
{
	json_t *doc = help_swarm_get(s, "/api/v1/overview.json");
	uint64_t round = (uint64_t)json_integer_value(json_object_get(doc, "round"));
	json_decref(doc);
	return round;
}

/* What the coordinator shows of a peer. */
static uint64_t shown(const struct swarm *s, const char *name, const char *field)
{
	json_t *doc = help_swarm_get(s, "/api/v1/peers.json");
	const json_t *row;
	uint64_t value = 0;
	size_t i;
	json_array_foreach(json_object_get(doc, "peers"), i, row)
	{
		if (!strcmp(json_string_value(json_object_get(row, "name")), name))
			value = (uint64_t)json_integer_value(json_object_get(row, field));
	}
	json_decref(doc);
	return value;
}

/* The coordinator's line to the newcomer carries 500 KB/s: all by it would take two rounds. */
static void a_newcomer_takes_from_peers(void **state)
{
	(void)state;
	struct swarm s, far;
	double mb;
	unsigned peers, left;
	help_swarm_start(&s, changes);
	struct proc *one = giver(&s, "one", "500M");
	giver(&s, "two", "500M");
	help_swarm_peer(&s, "mute"); /* gives nothing */
	stocked(&s, (const char *const[]){"one", "two", NULL});
	const uint16_t ports[] = {s.port, s.link_port};
	struct relay *relay = relay_start("127.0.0.2", ports, 2);
	relay_rate(relay, RELAY_down, 500000);
	far = s;
	far.link = relay_link(s.link, "127.0.0.2");
	struct proc *late = help_swarm_peer(&far, "late");
	shares(late, &mb, &peers, &left);
	assert_int_equal(peers, 2);
	assert_int_equal(left, 0);
	proc_line(late, "linked with the coordinator", WAIT);
	const uint64_t round = open_round(&s);
	assert_true((double)relay_bytes(relay, RELAY_down) < mb * 1e6 / 2);
	const char *line = proc_line(late, "contribution delivered", WAIT);
	if (strtoull(strstr(line, "round ") + 6, NULL, 10) > round + 1)
		fail_msg("round %llu was open when it came:\n%s", (unsigned long long)round,
			proc_err(late));
	assert_true(shown(&s, "late", "bytes_taken") > 4000000);
	assert_true(shown(&s, "one", "bytes_given") > 0);
	assert_int_equal(shown(&s, "mute", "bytes_given"), 0);
	struct proc *told =
		PROC_RUN(0, WAIT, "shoal-peer", "status", "--dir", proc_text("%s/late", s.scratch));
	assert_non_null(strstr(proc_out(told), "MB taken from them"));
	proc_signal(one, SIGINT);
	assert_int_equal(proc_wait(one, WAIT), 130);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

/* Every piece of every snapshot on its shelf is another one than was signed. */
static void spoil(const struct swarm *s, const char *name)
{
	static const char wrong[] = "this is not what was signed";
	const char *dir = proc_text("%s/%s/shelf/blobs", s->scratch, name);
	DIR *d = opendir(dir);
	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));) {
		struct stat st;
		int fd = open(proc_text("%s/%s", dir, e->d_name), O_WRONLY | O_CLOEXEC);
		assert_true(e->d_name[0] == '.' || fd >= 0);
		for (off_t at = 65536; !fstat(fd, &st) && at < st.st_size; at += 1 << 20)
			assert_int_equal(pwrite(fd, wrong, sizeof wrong, at), sizeof wrong);
		if (fd >= 0)
			close(fd);
	}
	closedir(d);
}

/* Slow givers, so that the newcomer is in the middle of it when one of them dies. */
static void a_liar_and_a_dead_one_are_left(void **state)
{
	(void)state;
	struct swarm s;
	double mb;
	unsigned peers, left;
	static const char *const names[] = {"honest", "liar", "mortal", NULL};
	static const char *const once[] = {"timed", "round.seconds=2", "round.snapshot_every=1000",
		"model.width=256", "model.heads=4", "model.layers=2", NULL};
	help_swarm_start(&s, once);
	giver(&s, names[0], "12M");
	giver(&s, names[1], "12M");
	struct proc *mortal = giver(&s, names[2], "4M");
	stocked(&s, names);
	spoil(&s, "liar");
	struct proc *late = help_swarm_peer(&s, "late");
	proc_line(late, "is not what the run key signed", WAIT); /* the liar is found out */
	proc_signal(mortal, SIGKILL);
	shares(late, &mb, &peers, &left);
	assert_true(mb > 3.7);
	assert_int_equal(left, 2);
	proc_line(late, "contribution delivered", WAIT);
}

/* Its connection is open and nothing comes: the others give what it was asked for. */
static void a_frozen_one_is_left(void **state)
{
	(void)state;
	struct swarm s;
	double mb;
	unsigned peers, left;
	static const char *const names[] = {"honest", "frozen", NULL};
	static const char *const once[] = {"timed", "round.seconds=2", "round.snapshot_every=1000",
		"model.width=256", "model.heads=4", "model.layers=2", NULL};
	help_swarm_start(&s, once);
	giver(&s, names[0], "8M");
	struct proc *frozen = giver(&s, names[1], "3M");
	stocked(&s, names);
	struct proc *late = help_swarm_peer(&s, "late");
	proc_line(late, "computing on", WAIT);
	const uint64_t deadline = clock_now_ns() + WAIT * CLOCK_SECOND;
	while (!shown(&s, "frozen", "bytes_given") && clock_now_ns() < deadline)
		poll(NULL, 0, 50); /* between two looks */
	proc_signal(frozen, SIGSTOP);
	shares(late, &mb, &peers, &left);
	assert_int_equal(left, 1);
	assert_true(mb > 3.7); /* not from the coordinator */
	proc_line(late, "linked with the coordinator", WAIT);
	proc_signal(frozen, SIGCONT);
	proc_line(late, "contribution delivered", WAIT);
}

/* The newcomer is killed in the middle; a newer snapshot comes; it goes on with the one it has
 * begun and takes only what was missing. */
static void what_was_begun_is_gone_on_with(void **state)
{
	(void)state;
	struct swarm s;
	double had, size, mb;
	unsigned peers, left;
	help_swarm_start(
		&s, (const char *const[]){"timed", "round.seconds=2", "round.snapshot_every=8",
			    "model.width=256", "model.heads=4", "model.layers=2", NULL});
	struct proc *one = giver(&s, "one", "6M"); /* nine seconds for all */
	stocked(&s, (const char *const[]){"one", NULL});
	uint64_t deadline = clock_now_ns() + WAIT * CLOCK_SECOND;
	struct proc *late = help_swarm_peer(&s, "late");
	while (shown(&s, "one", "bytes_given") < 1 << 20) {
		if (clock_now_ns() > deadline)
			fail_msg("nothing is given:\n%s", proc_err(one));
		poll(NULL, 0, 50); /* between two looks */
	}
	proc_signal(late, SIGKILL);
	assert_int_equal(proc_wait(late, WAIT), 128 + SIGKILL);
	help_swarm_round(&s, 9, WAIT); /* of round 8, and it is not dropped before 16 */
	late = help_swarm_peer(&s, "late");
	const char *line = proc_line(late, "are here already", WAIT);
	assert_non_null(strstr(line, "peer: "));
	assert_int_equal(sscanf(strstr(line, "peer: ") + 6, "%lf of %lf", &had, &size), 2);
	assert_true(had > 1 && size > 6);
	shares(late, &mb, &peers, &left);
	assert_true(mb < size - had + 0.01);
	proc_line(late, "contribution delivered", WAIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_newcomer_takes_from_peers, relay_teardown),
		cmocka_unit_test_teardown(a_liar_and_a_dead_one_are_left, proc_teardown),
		cmocka_unit_test_teardown(a_frozen_one_is_left, proc_teardown),
		cmocka_unit_test_teardown(what_was_begun_is_gone_on_with, proc_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
