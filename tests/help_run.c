#include "tests/help_run.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/buf.h"
#include "base/file.h"
#include "tests/help_proc.h"

#define FILE_MAX (64u << 20)

/* Tiny: two shards, 27,000 parameters; %s is the round's mode. */
static const char template[] =
	"{\"shoal\":1,\"name\":\"tiny\",\"seed\":3,"
	"\"model\":{\"builder\":\"gpt\",\"layers\":2,\"width\":32,\"heads\":2,"
	"\"context\":32,\"vocab\":256,\"tied\":true,\"shards\":[0,1]},"
	"\"train\":{\"batch\":2,\"micro_batch\":2,\"seq\":32,\"lr\":0.003,"
	"\"beta1\":0.9,\"beta2\":0.95,\"eps\":1e-8,\"weight_decay\":0.1,\"clip\":1.0,"
	"\"warmup_tokens\":640,\"total_tokens\":%s,\"final_lr\":0.1},"
	"\"round\":{%s,\"peers_min\":1,\"validate_every\":4,\"snapshot_every\":%s},"
	"\"outer\":{\"rule\":\"sparseloco\",\"lr\":1.0},"
	"\"codec\":{\"select\":\"topk\",\"values\":\"two\",\"chunk\":4096,\"k\":256,\"decay\":0.95}"
	"}\n";
/* Ends after 40 rounds of one peer. */
#define FIXED "12800", "\"mode\":\"fixed\",\"steps\":5,\"quorum\":1.0", "5"
/* Paced by the clock and without an end: for tests in which things happen while it goes on. */
#define TIMED "1000000000000", "\"mode\":\"timed\",\"seconds\":0.3,\"quorum\":0.6", "20"

const char *help_run_read(const char *path)
{
	uint8_t *bytes = NULL;
	size_t n = 0;
	struct why why = {0};
	if (file_read(path, FILE_MAX, &bytes, &n, &why))
		fail_msg("%s", why.text);
	const char *text = proc_text("%s", (const char *)bytes);
	free(bytes);
	return text;
}

void help_run_write(const char *path, const char *text)
{
	struct why why = {0};
	if (file_write(path, text, strlen(text), 0644, &why))
		fail_msg("%s", why.text);
}

bool help_run_same(const char *a, const char *b)
{
	uint8_t *x = NULL, *y = NULL;
	size_t n = 0, m = 0;
	struct why why = {0};
	if (file_read(a, FILE_MAX, &x, &n, &why) || file_read(b, FILE_MAX, &y, &m, &why))
		fail_msg("%s", why.text);
	bool same = n == m && !memcmp(x, y, n);
	free(x);
	free(y);
	return same;
}

const char *help_run_data(const char *scratch)
{
	static const char *const words[] = {"light", "and", "the", "darkness", "was upon",
		"face of", "the deep", "waters", "called", "Night"};
	const char *text = proc_text("%s/text.txt", scratch), *data = proc_text("%s/data", scratch);
	struct buf b;
	struct why why = {0};
	buf_init(&b, 1 << 20);
	for (uint32_t i = 0, x = 7; i < 5000; i++) {
		x = x * 1103515245u + 12345u;
		buf_printf(&b, "%s%s", words[(x >> 16) % 10], i % 13 == 12 ? ".\n" : " ");
	}
	if (file_write(text, b.data, b.len, 0644, &why))
		fail_msg("%s", why.text);
	buf_release(&b);
	PROC_RUN(0, 60, "shoal-coordinator", "prepare", text, "--out", data);
	return data;
}

const char *help_run_spec(const char *scratch, const char *data, const char *const *changes)
{
	static unsigned count;
	const char *from = proc_text("%s/template.json", scratch);
	const char *to = proc_text("%s/spec-%u.json", scratch, count++);
	const char *argv[32] = {"shoal-coordinator", "prepare", proc_text("%s/text.txt", scratch),
		"--out", data, "--spec", from, "--write-spec", to};
	size_t n = 9;
	bool timed = changes && changes[0] && !strcmp(changes[0], "timed");
	help_run_write(from, timed ? proc_text(template, TIMED) : proc_text(template, FIXED));
	for (size_t i = timed ? 1 : 0; changes && changes[i] && n < 31; i++)
		argv[n++] = changes[i];
	proc_run(0, 60, argv);
	return to;
}

const char *help_run_value(const char *line, const char *key)
{
	const char *want = proc_text(" %s=", key), *at = strstr(line, want);
	if (!at)
		fail_msg("no %s= in: %s", key, line);
	at += strlen(want);
	return proc_text("%.*s", (int)strcspn(at, " \n"), at);
}
