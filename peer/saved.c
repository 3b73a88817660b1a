#include "peer/saved.h"
#include <string.h>
#include "base/log.h"

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
