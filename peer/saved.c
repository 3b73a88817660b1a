#include "peer/saved.h"
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "model/tokenizer_open.h"

#define PASSED_MAX (1u << 16)
#define WINDOW 1024u /* tokens computed at once with a folder's model */

static struct spec *folder_spec(const struct model_config *model)
{
	struct spec *s = alloc_must_zero(1, sizeof *s);
	s->model = *model;
	s->train.seq = model->context < WINDOW ? model->context : WINDOW;
	s->train.batch = s->train.micro_batch = WINDOW / s->train.seq;
	return s;
}

enum err saved_open(const char *path, struct saved *s, struct why *why)
{
	*s = (struct saved){0};
	if (hfmodel_is(path)) {
		enum err e = hfmodel_open(path, &s->folder, why);
		if (e)
			return e;
		s->path = alloc_must_strdup(path);
		s->spec = folder_spec(hfmodel_config(s->folder));
		return ERR_OK;
	}
	struct buf passed;
	buf_init(&passed, PASSED_MAX);
	enum err e = checkpoint_open(path, &s->state, &passed, why);
	if (!e)
		saved_tell_passed(&passed);
	buf_release(&passed);
	s->spec = s->state.spec;
	return e;
}

void saved_release(struct saved *s)
{
	if (s->folder)
		spec_free(s->spec);
	hfmodel_close(s->folder);
	free(s->path);
	checkpoint_close(&s->state);
	*s = (struct saved){0};
}

enum err saved_tokenizer(const struct saved *s, struct tokenizer **out, struct why *why)
{
	*out = NULL;
	return s->folder && tokenizer_open_has(s->path) ? tokenizer_open(s->path, out, why)
							: ERR_OK;
}

static void put(void *arg, uint32_t shard, uint64_t offset, const float *values, size_t n)
{
	params_write(trainer_params(arg), shard, PARAMS_value, offset, n, values);
}

enum err saved_fill(const struct hfmodel *from, struct trainer *t, struct why *why)
{
	const struct hfmodel_sink sink = {put, t};
	return hfmodel_load(from, trainer_graph(t), &sink, why);
}

enum err saved_load(const struct saved *s, struct trainer *t, struct why *why)
{
	return s->folder ? saved_fill(s->folder, t, why)
			 : trainer_load(t, s->state.file, false, 0, why);
}

enum err saved_number(
	const struct statefile *file, const char *name, uint64_t *out, struct why *why)
{
	const json_t *v = json_object_get(statefile_meta(file), name);
	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return err_why(
			why, ERR_syntax, "the state's \"%s\" is missing or not a number", name);
	*out = (uint64_t)json_integer_value(v);
	return ERR_OK;
}

void saved_tell_passed(const struct buf *passed)
{
	const char *at = (const char *)passed->data, *end = at + passed->len;
	while (at < end) {
		const char *line = memchr(at, '\n', (size_t)(end - at));
		line = line ? line : end;
		log_warn(peer, "passed over: %.*s", (int)(line - at), at);
		at = line + 1;
	}
}
