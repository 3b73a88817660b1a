/* What is wrong, old, cut, expired or another's, against real programs: one sentence with the
 * cause, a status that is not 0, nothing half-written, and no harm to those who are right. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <zmq.h>
#include "base/clock.h"
#include "base/file.h"
#include "net/identity.h"
#include "net/invite.h"
#include "net/joinlink.h"
#include "net/msg.h"
#include "net/statement.h"
#include "tests/help_run.h"
#include "tests/help_swarm.h"

#define PEER "shoal-peer"
#define TOOL "shoal-coordinator"
#define WAIT 120
#define FILE_MOST (64u << 20)

static const char *const timed[] = {"timed", NULL};

static void holds(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" is not in:\n%s", part, text);
}

static void refuses(int status, const char *says, const char *const *argv)
{
	struct proc *p = proc_run(status, WAIT, argv);
	holds(proc_err(p), says);
	assert_string_equal(proc_out(p), "");
}
#define REFUSES(status, says, ...) refuses(status, says, (const char *const[]){__VA_ARGS__, NULL})

/* ---- files */

struct bytes {
	uint8_t *data;
	size_t n;
};

static struct bytes slurp(const char *path)
{
	struct bytes b = {0};
	struct why why;
	if (file_read(path, FILE_MOST, &b.data, &b.n, &why))
		fail_msg("%s", why.text);
	return b;
}

static void put(const char *path, const void *bytes, size_t n)
{
	struct why why;
	if (file_write(path, bytes, n, 0644, &why))
		fail_msg("%s", why.text);
}

static const char *largest(const char *dir)
{
	struct proc *p = PROC_RUN(0, WAIT, "/bin/ls", "-S", dir);
	const char *list = proc_text("%s", proc_out(p));
	return proc_text("%s/%.*s", dir, (int)strcspn(list, "\n"), list);
}

/* ---- invites */

static void read_link(const struct swarm *s, struct joinlink *out)
{
	const char *text = help_run_read(s->link);
	struct why why;
	if (joinlink_parse(proc_text("%.*s", (int)strcspn(text, "\n"), text), out, &why))
		fail_msg("%s", why.text);
}

/* A link whose invite ended that long ago, signed like any other. */
static const char *expired_link(const struct swarm *s, uint64_t ago_s)
{
	struct identity_coordinator keys;
	struct joinlink link;
	struct invite i;
	struct why why;
	char text[JOINLINK_MAX];
	read_link(s, &link);
	if (identity_coordinator_open(proc_text("%s/keys", s->dir), &keys, &why))
		fail_msg("%s", why.text);
	invite_make(clock_wall_s() - ago_s, 0, &i);
	invite_text(&i, &link.run, keys.run, link.invite);
	identity_coordinator_release(&keys);
	joinlink_format(&link, text);
	const char *path = proc_text("%s/expired.link", s->scratch);
	help_run_write(path, text);
	return path;
}

static void an_expired_invite_is_refused(void **state)
{
	(void)state;
	struct swarm s;
	help_swarm_start(&s, timed);
	const char *dir = proc_text("%s/late", s.scratch);
	REFUSES(1, "the invite expired 2h", PEER, "join", expired_link(&s, 7300), "--dir", dir);
	/* The same folder, with a link that is good. */
	struct proc *p = PROC_START(PEER, "join", s.link, "--dir", dir, "--threads", "1");
	proc_line(p, "contribution delivered", WAIT);
}

/* ---- blobs */

/* A byte is another one: whoever fetches it says so and asks again until it is right. */
static void tampered(struct swarm *s, const char *path, const char *name, const char *says)
{
	struct bytes b = slurp(path);
	b.data[b.n / 2] ^= 1;
	put(path, b.data, b.n);
	struct proc *p = help_swarm_peer(s, name);
	const char *line = proc_line(p, "next try in", WAIT);
	holds(line, says);
	assert_int_equal(help_swarm_tokens(s, name), 0);
	b.data[b.n / 2] ^= 1;
	put(path, b.data, b.n);
	proc_line(p, "contribution delivered", WAIT);
	proc_signal(p, SIGINT);
	assert_int_equal(proc_wait(p, WAIT), 130);
	free(b.data);
}

static void a_tampered_blob_is_not_believed(void **state)
{
	(void)state;
	struct swarm s;
	help_swarm_start(&s, timed);
	tampered(&s, largest(proc_text("%s/blobs", s.data)), "reader", "is not what was asked for");
	help_swarm_stop(&s);
	help_swarm_start(&s, timed);
	/* the snapshot */
	tampered(&s, largest(proc_text("%s/blobs", s.dir)), "joiner",
		"is not what the run key signed");
	help_swarm_verify(&s, help_swarm_stop(&s));
}

/* ---- another major version */

/* A socket as a peer has it, with the keys of its folder. */
static void *old_peer(void *context, const struct swarm *s, const char *name)
{
	struct identity_peer keys;
	struct joinlink link;
	struct statement st;
	struct why why;
	read_link(s, &link);
	if (identity_peer_open(proc_text("%s/%s", s->scratch, name), &keys, &why))
		fail_msg("%s", why.text);
	const struct statement expected = {.run = link.run, .key = link.key};
	json_t *doc = help_swarm_get(s, "/api/v1/statement");
	char *said = json_canonical(doc);
	json_decref(doc);
	if (statement_open(said, strlen(said), &expected, clock_wall_s(), &st, &why))
		fail_msg("%s", why.text);
	free(said);
	void *socket = zmq_socket(context, ZMQ_DEALER);
	int wait = 20000, none = 0;
	zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none);
	zmq_setsockopt(socket, ZMQ_RCVTIMEO, &wait, sizeof wait);
	zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, st.curve, 32);
	zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, keys.curve.public_key, 32);
	zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, keys.curve.secret_key, 32);
	assert_int_equal(zmq_connect(socket, proc_text("tcp://127.0.0.1:%u", s->link_port)), 0);
	identity_peer_release(&keys);
	return socket;
}

static void another_major_version_is_told_both(void **state)
{
	(void)state;
	struct swarm s;
	struct why why;
	shoal_header h;
	uint8_t frame[MSG_HEAD_MAX];
	help_swarm_start(&s, timed);
	struct proc *p = help_swarm_peer(&s, "member"), *other = help_swarm_peer(&s, "other");
	proc_line(p, "linked with the coordinator", WAIT);
	proc_signal(p, SIGKILL);
	proc_wait(p, WAIT);
	void *context = zmq_ctx_new(), *socket = old_peer(context, &s, "member");
	/* A member's hello, but of protocol 9.4. */
	memset(&h, 0, sizeof h);
	h.which_body = MSG_hello;
	size_t n = msg_encode(&h, frame);
	frame[4] = 9;
	frame[6] = 4;
	assert_int_equal(zmq_send(socket, frame, n, 0), (int)n);
	int got = zmq_recv(socket, frame, sizeof frame, 0);
	assert_true(got > 0);
	if (msg_decode(frame, (size_t)got, &h, &why))
		fail_msg("%s", why.text);
	assert_int_equal(h.which_body, MSG_refusal);
	assert_int_equal(h.body.refusal.code, ERR_version);
	holds(h.body.refusal.text, "9.4");
	holds(h.body.refusal.text, proc_text("%d.%d", MSG_MAJOR, MSG_MINOR));
	zmq_close(socket);
	zmq_ctx_term(context);
	proc_line(other, "contribution delivered", WAIT); /* nobody else is disturbed */
}

/* ---- another spec, another run */

static void another_spec_or_run_is_refused_with_the_difference(void **state)
{
	(void)state;
	struct swarm s, other;
	help_swarm_start(&s, timed);
	struct proc *p = help_swarm_peer(&s, "peer");
	proc_line(p, "linked with the coordinator", WAIT);
	proc_signal(p, SIGINT);
	assert_int_equal(proc_wait(p, WAIT), 130);
	help_swarm_stop(&s);
	const char *spec = help_run_spec(
		s.scratch, s.data, (const char *const[]){"timed", "train.lr=0.5", NULL});
	struct proc *c = PROC_RUN(1, WAIT, TOOL, "serve", spec, "--data", s.data, "--dir", s.dir,
		"--address", "127.0.0.1", "--port", "0", "--link-port", "0");
	holds(proc_err(c), "train.lr: 0.003 here, 0.5 there");
	help_swarm_start(&other, (const char *const[]){"timed", "seed=9", NULL});
	REFUSES(2, "folder of its own", PEER, "join", other.link, "--dir",
		proc_text("%s/peer", s.scratch));
	/* Neither has lost anything by it. */
	help_swarm_coordinator(&s);
	p = PROC_START(PEER, "join", "--dir", proc_text("%s/peer", s.scratch), "--threads", "1");
	proc_line(p, "linked with the coordinator", WAIT);
}

/* ---- snapshots */

static const char *with_change(const char *from, const char *to, size_t at, uint8_t value)
{
	struct bytes b = slurp(from);
	b.data[at] = value;
	put(to, b.data, b.n);
	free(b.data);
	return to;
}

static void a_snapshot_of_another_run_or_version_is_named(void **state)
{
	(void)state;
	struct swarm s;
	help_swarm_start(&s, (const char *const[]){"train.total_tokens=640", NULL});
	help_swarm_peer(&s, "peer");
	const char *snapshot = help_run_value(help_swarm_finish(&s, WAIT), "snapshot"),
		   *out = proc_text("%s/out", s.scratch), *text = proc_text("%s/b.txt", s.scratch),
		   *data = proc_text("%s/other", s.scratch);
	/* another run's data */
	help_run_write(text, proc_text("%5000d%5000d", 1, 2));
	PROC_RUN(0, WAIT, TOOL, "prepare", text, "--out", data);
	REFUSES(1, "prepare the same text", PEER, "eval", snapshot, "--data", data);
	REFUSES(1, "was not trained on", PEER, "generate", snapshot, "--data", data);
	REFUSES(1, "was not trained on", TOOL, "export", snapshot, "--data", data, "--out", out);
	/* a later version, a cut file, a byte that is another one */
	const char *later = with_change(snapshot, proc_text("%s/later", s.scratch), 8, 9),
		   *cut = proc_text("%s/cut", s.scratch);
	struct bytes b = slurp(snapshot);
	put(cut, b.data, b.n - 1000);
	const char *odd = with_change(
		snapshot, proc_text("%s/odd", s.scratch), b.n - 2000, b.data[b.n - 2000] ^ 1);
	free(b.data);
	const char *const bad[][2] = {{later, "version 9"}, {cut, cut}, {odd, "hash"}};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		REFUSES(1, bad[i][1], PEER, "eval", bad[i][0], "--data", s.data);
		REFUSES(1, bad[i][1], PEER, "generate", bad[i][0], "--data", s.data);
		REFUSES(1, bad[i][1], TOOL, "export", bad[i][0], "--out", out);
	}
	assert_false(file_exists(out));
}

/* ---- a full disk */

static void a_full_disk_leaves_nothing_half_written(void **state)
{
	(void)state;
	const char *scratch = proc_scratch(), *data = help_run_data(scratch),
		   *spec = help_run_spec(scratch, data, NULL);
	/* Its own view of the file systems, so that nothing stays mounted whatever happens. */
	const char *mount = proc_text(
		"mkdir %s/small && mount -t tmpfs -o size=64k none %s/small", scratch, scratch);
	struct proc *try = PROC_START("/usr/bin/unshare", "-m", "/bin/sh", "-c", mount);
	if (proc_wait(try, WAIT))
		skip(); /* only root may mount */
	rmdir(proc_text("%s/small", scratch));
	const char *train = proc_text(
		"%s local %s --data %s --dir run --threads 1", proc_program(PEER), spec, data);
	struct proc *p = PROC_RUN(0, WAIT, "/usr/bin/unshare", "-m", "/bin/sh", "-c",
		proc_text("%s && cd %s/small || exit 9; %s; echo status=$?; "
			  "echo left=$(find . -name '*.state*' -o -name '*.tmp' | wc -l); "
			  "mount -o remount,size=8m none . || exit 9; %s; echo again=$?",
			mount, scratch, train, train));
	const char *out = proc_text("%s", proc_out(p));
	holds(proc_err(p), "No space left");
	holds(out, "status=1\nleft=0\n");
	holds(out, "again=0\n"); /* with room it goes on */
}

/* ---- texts */

static void bytes_are_trained_on_and_nothing_is_not(void **state)
{
	(void)state;
	const char *scratch = proc_scratch(), *text = proc_text("%s/text.txt", scratch),
		   *data = proc_text("%s/data", scratch), *none = proc_text("%s/none", scratch);
	REFUSES(1, "nowhere.txt", TOOL, "prepare", proc_text("%s/nowhere.txt", scratch), "--out",
		data);
	put(text, "", 0);
	REFUSES(1, "is empty", TOOL, "prepare", text, "--out", data);
	assert_false(file_exists(data));
	uint8_t bytes[20000];
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(0x80 + i % 97); /* lone continuation bytes, lead bytes */
	put(text, bytes, sizeof bytes);
	PROC_RUN(0, WAIT, TOOL, "prepare", text, "--out", data);
	const char *spec = help_run_spec(scratch, data, NULL);
	struct proc *p = PROC_RUN(0, WAIT, PEER, "local", spec, "--data", data, "--dir",
		proc_text("%s/run", scratch), "--threads", "1");
	double loss = strtod(help_run_value(proc_out(p), "val_loss"), NULL);
	assert_true(loss > 0 && loss < 3); /* each byte follows from the one before it */
	REFUSES(1, none, PEER, "local", spec, "--data", none, "--dir", proc_text("%s/r", scratch));
	assert_false(file_exists(proc_text("%s/r", scratch)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(an_expired_invite_is_refused, proc_teardown),
		cmocka_unit_test_teardown(a_tampered_blob_is_not_believed, proc_teardown),
		cmocka_unit_test_teardown(another_major_version_is_told_both, proc_teardown),
		cmocka_unit_test_teardown(
			another_spec_or_run_is_refused_with_the_difference, proc_teardown),
		cmocka_unit_test_teardown(
			a_snapshot_of_another_run_or_version_is_named, proc_teardown),
		cmocka_unit_test_teardown(a_full_disk_leaves_nothing_half_written, proc_teardown),
		cmocka_unit_test_teardown(bytes_are_trained_on_and_nothing_is_not, proc_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
