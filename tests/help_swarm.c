#include "tests/help_swarm.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <poll.h>
#include <cmocka.h>
#include <curl/curl.h>
#include "base/clock.h"
#include "tests/help_run.h"

#define REPLY_MAX (8u << 20)
#define WAIT 60

void help_swarm_start(struct swarm *s, const char *const *changes)
{
	help_swarm_start_at(s, "127.0.0.1", changes);
}

void help_swarm_start_at(struct swarm *s, const char *host, const char *const *changes)
{
	*s = (struct swarm){.scratch = proc_scratch(), .host = host};
	s->data = help_run_data(s->scratch);
	s->spec = help_run_spec(s->scratch, s->data, changes);
	s->dir = proc_text("%s/coordinator", s->scratch);
	s->link = proc_text("%s/join.link", s->scratch);
	help_swarm_coordinator(s);
}

void help_swarm_coordinator(struct swarm *s)
{
	s->coordinator = PROC_START("shoal-coordinator", "serve", s->spec, "--data", s->data,
		"--dir", s->dir, "--address", s->host, "--port", proc_text("%u", s->port),
		"--link-port", proc_text("%u", s->link_port), "--invite-file", s->link,
		"--exit-at-end");
	const char *page = proc_line(s->coordinator, proc_text("page: https://%s:", s->host), WAIT);
	s->port = (uint16_t)strtoul(strrchr(page, ':') + 1, NULL, 10);
	proc_line(s->coordinator, "join link:", WAIT);
	if (!s->link_port) {
		json_t *overview = help_swarm_get(s, "/api/v1/overview.json");
		s->link_port = (uint16_t)json_integer_value(json_object_get(overview, "link_port"));
		json_decref(overview);
		assert_int_not_equal(s->link_port, 0);
	}
}

struct proc *help_swarm_peer(const struct swarm *s, const char *name)
{
	return PROC_START("shoal-peer", "join", s->link, "--dir",
		proc_text("%s/%s", s->scratch, name), "--name", name, "--threads", "1");
}

static size_t collect(char *bytes, size_t one, size_t n, void *arg)
{
	struct buf *b = arg;
	(void)one;
	buf_put(b, bytes, n);
	return buf_ok(b) ? n : 0;
}

json_t *help_swarm_get(const struct swarm *s, const char *path)
{
	struct buf b;
	buf_init(&b, REPLY_MAX);
	CURL *c = curl_easy_init();
	const char *url = proc_text("https://%s:%u%s", s->host, s->port, path);
	curl_easy_setopt(c, CURLOPT_URL, url);
	curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 0L); /* the test knows whom it started */
	curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 0L);
	curl_easy_setopt(c, CURLOPT_TIMEOUT, 5L);
	curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, collect);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, &b);
	CURLcode code = curl_easy_perform(c);
	curl_easy_cleanup(c);
	json_t *doc = code ? NULL : json_loadb((const char *)b.data, b.len, 0, NULL);
	buf_release(&b);
	return doc;
}

uint64_t help_swarm_at(const struct swarm *s)
{
	json_t *head = help_swarm_get(s, "/api/v1/head");
	const json_t *body = json_object_get(head, "body");
	uint64_t at = (uint64_t)json_integer_value(json_object_get(body, "round"));
	json_decref(head);
	return at;
}

void help_swarm_round(const struct swarm *s, uint64_t round, unsigned seconds)
{
	uint64_t deadline = clock_now_ns() + seconds * CLOCK_SECOND;
	for (;;) {
		uint64_t at = help_swarm_at(s);
		if (at >= round)
			return;
		if (clock_now_ns() > deadline)
			fail_msg("the ledger stands at round %llu, not at %llu, after %u s",
				(unsigned long long)at, (unsigned long long)round, seconds);
		(void)proc_out(s->coordinator); /* keeps its pipes empty */
		poll(NULL, 0, 20);              /* between two looks, under the deadline above */
	}
}

const char *help_swarm_finish(struct swarm *s, unsigned seconds)
{
	const char *line = proc_line(s->coordinator, "serve: finished", seconds);
	assert_int_equal(proc_wait(s->coordinator, WAIT), 0);
	return line;
}

const char *help_swarm_stop(struct swarm *s)
{
	proc_signal(s->coordinator, SIGINT);
	const char *line = proc_line(s->coordinator, "serve: stopped", WAIT);
	assert_int_equal(proc_wait(s->coordinator, WAIT), 0);
	return line;
}

uint64_t help_swarm_tokens(const struct swarm *s, const char *name)
{
	json_t *doc = help_swarm_get(s, "/api/v1/peers.json");
	const json_t *peers = json_object_get(doc, "peers");
	uint64_t tokens = 0;
	for (size_t i = 0; i < json_array_size(peers); i++) {
		const json_t *p = json_array_get(peers, i);
		if (!strcmp(json_string_value(json_object_get(p, "name")), name))
			tokens = (uint64_t)json_integer_value(json_object_get(p, "tokens"));
	}
	json_decref(doc);
	return tokens;
}

void help_swarm_goes_on(const struct swarm *s, const char *name, uint64_t before, unsigned seconds)
{
	const uint64_t until = clock_now_ns() + seconds * CLOCK_SECOND;
	while (help_swarm_tokens(s, name) <= before) {
		if (clock_now_ns() > until)
			fail_msg("nothing more of %s's is listed after %u s", name, seconds);
		(void)proc_out(s->coordinator); /* keeps all pipes empty */
		poll(NULL, 0, 50);              /* between two looks, under the deadline above */
	}
}

const char *help_swarm_says(
	const struct swarm *s, const char *name, const char *part, unsigned seconds)
{
	const char *dir = proc_text("%s/%s", s->scratch, name);
	const uint64_t until = clock_now_ns() + seconds * CLOCK_SECOND;
	for (;;) {
		struct proc *p = PROC_START("shoal-peer", "status", "--dir", dir);
		(void)proc_wait(p, WAIT);
		const char *says = proc_text("%s", proc_out(p));
		if (strstr(says, part))
			return says;
		if (clock_now_ns() > until)
			fail_msg("\"%s\" is not in, after %u s:\n%s%s", part, seconds, says,
				proc_err(p));
		poll(NULL, 0, 100); /* between two looks, under the deadline above */
	}
}

void help_swarm_ends(struct proc *peer, unsigned seconds)
{
	int status = proc_wait(peer, seconds);
	if (status)
		fail_msg("the peer ended with status %d:\n%s", status, proc_err(peer));
}

void help_swarm_verify(const struct swarm *s, const char *finished)
{
	struct proc *p = PROC_RUN(0, WAIT, "shoal-coordinator", "replay", s->dir, "--verify");
	const char *out = proc_text("%s", proc_out(p)), *line = strstr(out, "replay: ok");
	assert_non_null(line);
	assert_string_equal(help_run_value(line, "head"), help_run_value(finished, "head"));
	assert_string_equal(help_run_value(line, "state"), help_run_value(finished, "state"));
	assert_string_equal(help_run_value(line, "tokens"), help_run_value(finished, "tokens"));
}
