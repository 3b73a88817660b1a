#include "peer/saved.h"
#include <string.h>
#include <sys/stat.h>
#include "base/log.h"

static const char *const kinds[] = {"local", "snapshot"};

static enum err open_file(const char *path, struct statefile **out, struct why *why)
{
	enum err e = statefile_open(path, kinds[0], NULL, out, why);
	if (e == ERR_magic) /* a state file of another kind, or no state file: the second try tells
			       which */
		e = statefile_open(path, kinds[1], NULL, out, why);
	return e;
}

static enum err open_folder(const char *dir, struct statefile **out, struct why *why)
{
	enum err e = ERR_missing;
	struct buf passed;
	buf_init(&passed, 1 << 16);
	for (size_t i = 0; e == ERR_missing && i < sizeof kinds / sizeof *kinds; i++) {
		struct statefile_series series = {.dir = dir, .prefix = kinds[i], .kind = kinds[i]};
		uint64_t number;
		e = statefile_open_newest(&series, out, &number, &passed, why);
	}
	if (passed.len)
		log_warn(peer, "passed over: %.*s", (int)passed.len, (const char *)passed.data);
	buf_release(&passed);
	return e;
}

static enum err read_spec(struct saved *s, const char *path, struct why *why)
{
	for (size_t i = 0; i < statefile_count(s->file); i++) {
		const struct statefile_section *section = statefile_at(s->file, i);
		if (!strcmp(section->name, "spec"))
			return spec_parse(section->bytes, section->len, &s->spec, NULL, why);
	}
	return err_why(why, ERR_missing,
		"%s has no spec inside: it was not written by shoal-peer or a run", path);
}

enum err saved_open(const char *path, struct saved *out, struct why *why)
{
	*out = (struct saved){0};
	struct stat st;
	bool folder = !stat(path, &st) && S_ISDIR(st.st_mode);
	enum err e = folder ? open_folder(path, &out->file, why) : open_file(path, &out->file, why);
	if (!e)
		e = read_spec(out, path, why);
	if (e)
		saved_release(out);
	return e;
}

void saved_release(struct saved *s)
{
	if (!s)
		return;
	statefile_close(s->file);
	spec_free(s->spec);
	*s = (struct saved){0};
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
