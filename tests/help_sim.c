#include "tests/help_sim.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/buf.h"
#include "base/file.h"
#include "base/rng.h"
#include "model/manifest.h"
#include "model/prepare.h"

static const char template[] =
	"{\"shoal\":1,\"name\":\"tiny\",\"seed\":3,\"data\":{\"manifest\":\"%s\"},"
	"\"model\":{\"builder\":\"gpt\",\"layers\":2,\"width\":16,\"heads\":2,\"context\":32,"
	"\"vocab\":256,\"tied\":true,\"shards\":[0,1]},"
	"\"train\":{\"batch\":2,\"micro_batch\":2,\"seq\":32,\"lr\":0.01,\"beta1\":0.9,\"beta2\":"
	"0.95,\"eps\":1e-8,\"weight_decay\":0.1,\"clip\":1.0,\"warmup_tokens\":640,"
	"\"total_tokens\":32000,\"final_lr\":0.1},"
	"\"round\":{\"mode\":\"fixed\",\"steps\":5,\"peers_min\":2,\"quorum\":1.0,"
	"\"validate_every\":4,\"snapshot_every\":5},"
	"\"outer\":{\"rule\":\"sparseloco\",\"lr\":1.0},"
	"\"codec\":{\"select\":\"topk\",\"values\":\"int8\",\"chunk\":1024,\"k\":64,\"decay\":"
	"0.95}}\n";

static char folder[64], path[128];

void help_sim_fine(enum err err, const struct why *why)
{
	if (err)
		fail_msg("%s: %s", err_name(err), why->text);
}

static const char *in_folder(const char *name)
{
	snprintf(path, sizeof path, "%s/%s", folder, name);
	return path;
}

static void write_text(const char *name, const char *text)
{
	struct why why;
	help_sim_fine(file_write(in_folder(name), text, strlen(text), 0644, &why), &why);
}

static void make_data(char hex[static HASH_HEX])
{
	static const char *const words[] = {
		"light ", "and ", "the ", "deep ", "waters ", "night.\n"};
	char data[96], text[96];
	const char *texts = text;
	struct buf b;
	struct why why;
	struct prepare_summary sum;
	struct manifest *manifest;
	buf_init(&b, 1 << 20);
	for (uint64_t i = 0; b.len < 20000; i++)
		buf_printf(&b, "%s", words[rng_below(5, 1, i, 6)]);
	write_text("text.txt", (const char *)b.data);
	buf_release(&b);
	snprintf(text, sizeof text, "%s/text.txt", folder);
	snprintf(data, sizeof data, "%s/data", folder);
	const struct prepare how = {.texts = &texts,
		.n_texts = 1,
		.dir = data,
		.vocab = 256,
		.validation = 0.05,
		.seq = 32,
		.shard_bytes = 1 << 16};
	help_sim_fine(prepare(&how, &sum, &why), &why);
	help_sim_fine(manifest_load(in_folder("data/manifest.json"), &manifest, &why), &why);
	hash_hex(&manifest->id, hex);
	manifest_free(manifest);
}

int help_sim_setup(void **state)
{
	(void)state;
	char hex[HASH_HEX], spec[sizeof template + HASH_HEX];
	snprintf(folder, sizeof folder, "/tmp/shoal-sim-test.XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	make_data(hex);
	snprintf(spec, sizeof spec, template, hex);
	write_text("run.json", spec);
	return 0;
}

static int remove_one(const char *name, const struct stat *st, int kind, struct FTW *where)
{
	(void)st, (void)kind, (void)where;
	return remove(name);
}

int help_sim_teardown(void **state)
{
	(void)state;
	return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *help_sim_scenario(const char *rest)
{
	char text[4096];
	snprintf(text, sizeof text, "{\"spec\":\"run.json\",\"data\":\"data\",\"seed\":1,%s}\n",
		rest);
	write_text("scenario.json", text);
	return in_folder("scenario.json");
}
