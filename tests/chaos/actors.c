#include "tests/chaos/actors.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "tests/help_run.h"

#define WAIT 60
#define SET_MOST 16
#define DISK_BYTES "33554432"
#define SHARE "0.02" /* of the time that a peer may compute: all of them are on this machine */
#define STOPPED_BY_USER 130
#define LOOK CLOCK_SECOND /* records are kept for ten rounds at least, of a second each */

void actors_say(const struct actors *a, const char *fmt, ...)
{
	va_list args;
	printf("chaos: %7.3f ", clock_seconds(clock_now_ns() - a->start_ns));
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
}

/* ---- making */

/* Mounts of an own namespace go with its last process, whatever happens to this one. */
static bool own_mounts(void)
{
	return !unshare(CLONE_NEWNS) && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

static void make_folder(struct actors *a, struct actor *who)
{
	struct why why;
	if (file_mkdirs(who->dir, 0700, &why))
		fail_msg("%s", why.text);
	if (a->disks && mount("tmpfs", who->dir, "tmpfs", 0, "mode=0700,size=" DISK_BYTES))
		fail_msg("cannot mount a disk at %s: %s", who->dir, strerror(errno));
}

static void remember(struct actor *who, struct proc *p)
{
	who->past = alloc_must_resize(who->past, who->n_past + 1, sizeof *who->past);
	who->past[who->n_past++] = who->proc = p;
	who->down = false;
}

static void start(struct actors *a, struct actor *who)
{
	if (who == &a->at[SCHEDULE_COORDINATOR]) {
		faults_start_with(who->faults);
		help_swarm_coordinator(&a->swarm);
		faults_start_with(NULL);
		remember(who, a->swarm.coordinator);
		return;
	}
	faults_start_with(who->faults);
	struct proc *p = PROC_START("shoal-peer", "join", who->link, "--dir", who->dir, "--name",
		who->name, "--threads", "1", "--cpu-share", SHARE);
	faults_start_with(NULL);
	remember(who, p);
}

static void make_actor(struct actors *a, uint32_t i)
{
	struct actor *who = &a->at[i];
	if (i)
		snprintf(who->name, sizeof who->name, "peer%u", i);
	else
		snprintf(who->name, sizeof who->name, "coordinator");
	who->dir = proc_text("%s/%s", a->swarm.scratch, who->name);
	who->faults = faults_new();
	make_folder(a, who);
}

/* Short rounds, so that much happens in them. */
static const char *make_spec(const struct actors *a, const char *set)
{
	const char *changes[SET_MOST + 5] = {
		"timed", "round.seconds=1", "round.validate_every=2", "round.snapshot_every=10"};
	const char *rest = set;
	for (size_t n = 4; n < SET_MOST + 4 && *(rest += strspn(rest, " ")); n++) {
		changes[n] = proc_text("%.*s", (int)strcspn(rest, " "), rest);
		rest += strcspn(rest, " ");
	}
	return help_run_spec(a->swarm.scratch, a->swarm.data, changes);
}

void actors_start(struct actors *a, uint32_t peers, const char *set)
{
	*a = (struct actors){.peers = peers, .disks = own_mounts(), .start_ns = clock_now_ns()};
	a->swarm.scratch = proc_scratch();
	a->swarm.host = "127.0.0.1";
	a->swarm.data = help_run_data(a->swarm.scratch);
	a->swarm.spec = make_spec(a, set);
	a->swarm.link = proc_text("%s/join.link", a->swarm.scratch);
	make_actor(a, SCHEDULE_COORDINATOR);
	a->swarm.dir = a->at[SCHEDULE_COORDINATOR].dir;
	start(a, &a->at[SCHEDULE_COORDINATOR]);
	for (uint32_t i = 1; i <= peers; i++) {
		const char *address = proc_text("127.0.0.%u", i + 1);
		const uint16_t ports[] = {a->swarm.port, a->swarm.link_port};
		make_actor(a, i);
		a->at[i].relay = relay_start(address, ports, 2);
		a->at[i].link = relay_link(a->swarm.link, address);
		start(a, &a->at[i]);
	}
}

/* ---- breaking and mending */

static const char *filler(const struct actor *who)
{
	return proc_text("%s/filler", who->dir);
}

/* Without room for its lock nobody starts, and says so; a disk is to be met full while one works.
 */
static bool is_up(struct actor *who)
{
	return strstr(proc_err(who->proc), "standing at ledger entry") != NULL;
}

/* By writing, since what is only promised is no full disk for some file systems. */
static void fill(const struct actors *a, struct actor *who)
{
	static const uint8_t zeros[4096];
	atomic_store(&who->faults->disk_full, !a->disks);
	if (!a->disks)
		return;
	int fd = open(filler(who), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		fail_msg("cannot fill %s: %s", who->dir, strerror(errno));
	while (write(fd, zeros, sizeof zeros) > 0)
		;
	close(fd);
}

static void end(struct actor *who, int signal_number, int status)
{
	if (who->down)
		return;
	proc_signal(who->proc, signal_number);
	int got = proc_wait(who->proc, WAIT);
	who->down = true;
	if (got != status)
		fail_msg("%s ended with status %d, expected %d", who->name, got, status);
}

static void lose(const struct actor *who)
{
	PROC_RUN(0, WAIT, "/usr/bin/find", who->dir, "-mindepth", "1", "-delete");
}

static void stall(struct actor *who)
{
	relay_stall(who->relay, RELAY_up);
	relay_stall(who->relay, RELAY_down);
}

static void slow(struct actor *who, int64_t rate)
{
	relay_rate(who->relay, RELAY_up, (uint32_t)rate);
	relay_rate(who->relay, RELAY_down, (uint32_t)rate);
}

static void break_one(const struct actors *a, struct actor *who, const struct schedule_event *e)
{
	switch (e->kind) {
	case SCHEDULE_kill_peer:
	case SCHEDULE_lose_peer:
	case SCHEDULE_kill_coordinator: end(who, SIGKILL, 128 + SIGKILL); break;
	case SCHEDULE_leave_peer: end(who, SIGINT, STOPPED_BY_USER); break;
	case SCHEDULE_leave_coordinator: end(who, SIGINT, 0); break;
	case SCHEDULE_freeze_peer:
	case SCHEDULE_freeze_coordinator: proc_signal(who->proc, SIGSTOP); break;
	case SCHEDULE_cut_peer:
	case SCHEDULE_cut_all: relay_cut(who->relay); break;
	case SCHEDULE_stall_peer: stall(who); break;
	case SCHEDULE_slow_peer: slow(who, e->amount); break;
	case SCHEDULE_fill_peer:
		if (is_up(who))
			fill(a, who);
		else
			actors_say(a, "%s is not up yet, and keeps its room", who->name);
		break;
	case SCHEDULE_fill_coordinator: fill(a, who); break;
	case SCHEDULE_clock_peer:
	case SCHEDULE_clock_coordinator: atomic_fetch_add(&who->faults->clock_s, e->amount); break;
	case SCHEDULE_KINDS: break;
	}
}

static void mend_one(struct actors *a, struct actor *who, const struct schedule_event *e)
{
	switch (e->kind) {
	case SCHEDULE_lose_peer: lose(who); /* fall through */
	case SCHEDULE_kill_peer:
	case SCHEDULE_kill_coordinator:
	case SCHEDULE_leave_peer:
	case SCHEDULE_leave_coordinator: start(a, who); break;
	case SCHEDULE_freeze_peer:
	case SCHEDULE_freeze_coordinator: proc_signal(who->proc, SIGCONT); break;
	case SCHEDULE_cut_peer:
	case SCHEDULE_cut_all:
	case SCHEDULE_stall_peer:
	case SCHEDULE_slow_peer: relay_heal(who->relay); break;
	case SCHEDULE_fill_peer:
	case SCHEDULE_fill_coordinator:
		atomic_store(&who->faults->disk_full, false);
		(void)unlink(filler(who)); /* none where disks are not their own */
		break;
	case SCHEDULE_clock_peer:
	case SCHEDULE_clock_coordinator: atomic_fetch_sub(&who->faults->clock_s, e->amount); break;
	case SCHEDULE_KINDS: break;
	}
}

void actors_break(struct actors *a, const struct schedule_event *e)
{
	char line[SCHEDULE_LINE];
	schedule_say(e, line);
	actors_say(a, "%s", strchr(line, ' ') + 1);
	for (uint32_t i = 0; i <= a->peers; i++)
		if (i == e->target || (i && e->target == SCHEDULE_ALL))
			break_one(a, &a->at[i], e);
}

void actors_mend(struct actors *a, const struct schedule_event *e)
{
	for (uint32_t i = 0; i <= a->peers; i++)
		if (i == e->target || (i && e->target == SCHEDULE_ALL))
			mend_one(a, &a->at[i], e);
	actors_say(a, "%s %s: mended", schedule_verb(e->kind),
		e->target == SCHEDULE_ALL ? "all" : a->at[e->target].name);
}

void actors_watch(struct actors *a)
{
	for (uint32_t i = 0; i <= a->peers; i++) {
		struct actor *who = &a->at[i];
		if (who->down || !proc_ended(who->proc))
			continue;
		fail_msg(
			"%s ended by itself with status %d", who->name, proc_wait(who->proc, WAIT));
	}
	const uint64_t now = clock_now_ns();
	if (now - a->looked_ns < LOOK)
		return;
	a->looked_ns = now;
	listed_look(&a->listed, proc_text("%s/blobs", a->swarm.dir));
}

/* ---- the end */

const char *actors_stop(struct actors *a)
{
	for (uint32_t i = 1; i <= a->peers; i++)
		end(&a->at[i], SIGINT, STOPPED_BY_USER);
	a->at[SCHEDULE_COORDINATOR].down = true;
	return help_swarm_stop(&a->swarm);
}

static double status_mb(const struct proc *p, const char *key)
{
	FILE *f = fopen(proc_text("/proc/%d/status", (int)proc_pid(p)), "r");
	char line[256];
	double kb = 0;
	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, key, strlen(key)))
			kb = strtod(line + strlen(key), NULL);
	if (f)
		fclose(f);
	return kb / 1024;
}

void actors_memory(const struct actors *a)
{
	for (uint32_t i = 0; i <= a->peers; i++)
		actors_say(a, "%s holds %.1f MB, at most %.1f MB, started %zu times", a->at[i].name,
			status_mb(a->at[i].proc, "VmRSS:"), status_mb(a->at[i].proc, "VmHWM:"),
			a->at[i].n_past);
}

static void write_log(const char *path, struct proc *p)
{
	FILE *f = fopen(path, "w");
	if (!f)
		return;
	fprintf(f, "---- standard output\n%s", proc_out(p));
	fprintf(f, "---- standard error\n%s", proc_err(p));
	fclose(f);
}

static void keep_folder(const char *from, const char *to)
{
	struct proc *p = PROC_START("/bin/cp", "-r", from, to);
	(void)proc_wait(p, WAIT);
}

void actors_release(struct actors *a, const char *folder, bool keep)
{
	for (uint32_t i = 0; i <= a->peers; i++) {
		struct actor *who = &a->at[i];
		for (size_t k = 0; k < who->n_past; k++)
			write_log(
				proc_text("%s/%s-%zu.log", folder, who->name, k + 1), who->past[k]);
		if (who->proc) /* nothing may write any more */
			proc_signal(who->proc, SIGKILL);
		if (who->dir && keep)
			keep_folder(who->dir, folder);
		free(who->past);
	}
	listed_release(&a->listed);
	for (uint32_t i = 0; a->disks && i <= a->peers; i++)
		if (a->at[i].dir)
			(void)umount2(a->at[i].dir, MNT_DETACH);
}
