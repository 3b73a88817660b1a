/* JSON from anywhere is refused with a sentence, or its canonical text reads back to itself; and
 * the getters take any member for what it is. */
#include <stdlib.h>
#include <string.h>
#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void get_everything(const json_t *doc)
{
	static const char *const names[] = {"one", "two", NULL};
	struct buf mistakes;
	struct json_in in, inner;
	buf_init(&mistakes, 2000);
	json_in_init(&in, doc, "", &mistakes);
	int64_t i = json_get_int(&in, "i", -5, 5, NULL);
	double r = json_get_real(&in, "r", 0, 1, NULL);
	const char *t = json_get_text(&in, "t", 10, NULL);
	if (i < -5 || i > 5 || !(r >= 0 && r <= 1) || strlen(t) > 10)
		abort();
	json_get_flag(&in, "f", NULL);
	if (json_get_choice(&in, "c", names, NULL) > 1)
		abort();
	json_get_hash(&in, "h", true);
	const json_t *a = json_get_array(&in, "a", 3, false);
	if (a && json_array_size(a) > 3)
		abort();
	json_in_init(&inner, json_get_object(&in, "o", false), "o", &mistakes);
	json_get_text(&inner, "t", 10, "");
	json_in_finish(&inner);
	json_in_finish(&in);
	buf_release(&mistakes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *doc, *again;
	struct why why = {0};
	if (json_parse(data, size, 1 << 16, &doc, &why)) {
		if (doc || !why.text[0])
			abort();
		return 0;
	}
	char *text = json_canonical(doc);
	if (!text || json_parse(text, strlen(text), 1 << 20, &again, &why))
		abort();
	char *second = json_canonical(again);
	if (!second || strcmp(text, second) != 0)
		abort();
	get_everything(doc);
	free(second);
	free(text);
	json_decref(again);
	json_decref(doc);
	return 0;
}
