#include "base/json.h"
#include "peer/take.h"
#include "round/object.h"

static void note(const json_t *rows, const struct hash *blobs, uint32_t n_blobs, bool *keeps)
{
	const json_t *row;
	size_t at;
	json_array_foreach(rows, at, row)
	{
		struct hash name;
		const char *hex = json_string_value(json_object_get(row, "blob"));
		if (!hex || hash_parse(hex, &name))
			continue;
		for (uint32_t i = 0; i < n_blobs; i++)
			keeps[i] |= hash_equal(&name, &blobs[i]);
	}
}

enum err take_list(const void *text, size_t n, const struct hash *blobs, uint32_t n_blobs,
	bool *keeps, struct why *why)
{
	json_t *doc = NULL;
	enum err err = json_parse(text, n, OBJECT_SHELF_MAX, &doc, why);
	if (err)
		return err;
	note(json_object_get(doc, "snapshots"), blobs, n_blobs, keeps);
	note(json_object_get(doc, "records"), blobs, n_blobs, keeps);
	json_decref(doc);
	return ERR_OK;
}
