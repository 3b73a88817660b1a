#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "base/text.h"
#include "coordinator/human.h"
#include "coordinator/inspect.h"
#include "model/checkpoint.h"

static void show_meta(const json_t *meta)
{
	const char *name;
	json_t *value;
	json_object_foreach((json_t *)(uintptr_t)meta, name, value)
	{
		char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII |
						       JSON_REAL_PRECISION(15));
		char safe[32];
		snprintf(safe, sizeof safe, "%s", name);
		text_clean(safe);
		printf("%-12s  %s\n", safe, text ? text : "");
		free(text);
	}
}

static void show_sections(const struct statefile *file)
{
	printf("\n%-20s  %14s  %s\n", "section", "bytes", "SHA-256");
	for (size_t i = 0; i < statefile_count(file); i++) {
		const struct statefile_section *s = statefile_at(file, i);
		char bytes[HUMAN_TEXT], hex[HASH_HEX], name[sizeof s->name];
		memcpy(name, s->name, sizeof name);
		text_clean(name);
		struct hash h = hash_of(s->bytes, s->len);
		hash_hex(&h, hex);
		printf("%-20s  %14s  %s\n", name, human_count(s->len, bytes), hex);
	}
}

enum err inspect_snapshot(const struct inspect *i, struct why *why)
{
	struct checkpoint c;
	struct buf passed;
	buf_init(&passed, 1 << 16);
	enum err err = checkpoint_open(i->path, &c, &passed, why);
	if (passed.len)
		fprintf(stderr, "passed over: %.*s", (int)passed.len, (const char *)passed.data);
	if (!err) {
		char hex[HASH_HEX], params[HUMAN_TEXT];
		struct hash run = statefile_run(c.file);
		hash_hex(&run, hex);
		printf("%-12s  %s\n", "file", c.path);
		printf("%-12s  %s\n", "kind", statefile_kind(c.file));
		printf("%-12s  %s (%s)\n", "run", hex, c.spec->name);
		printf("%-12s  %s in %u shards\n", "parameters",
			human_count(graph_params(c.graph), params), c.graph->n_shards);
		show_meta(statefile_meta(c.file));
		show_sections(c.file);
	}
	checkpoint_close(&c);
	buf_release(&passed);
	return err;
}
