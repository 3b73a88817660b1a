#include "model/tokenizer_open.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "model/hftokenizer.h"

/* What a folder may have: one file, or words and merges. */
#define WHOLE "tokenizer.json"
static const char *const pairs[2][2] = {
	{"encoder.json", "vocab.bpe"}, {"vocab.json", "merges.txt"}};

static enum err parse_file(const uint8_t *text, size_t n, struct tokenizer **out, struct why *why)
{
	json_t *doc;
	enum err e = json_parse(text, n, HFTOKENIZER_FILE_MAX, &doc, why);
	if (e)
		return e;
	bool ours = json_object_get(doc, "shoal_tokenizer"), theirs = json_object_get(doc, "model");
	json_decref(doc);
	if (ours || !theirs)
		return ours ? tokenizer_parse(text, n, out, why)
			    : err_why(why, ERR_magic,
				      "neither a tokenizer of shoal nor a tokenizer.json; of "
				      "encoder.json and vocab.bpe give the folder");
	return hftokenizer_parse(text, n, out, why);
}

static enum err open_file(const char *path, struct tokenizer **out, struct why *why)
{
	uint8_t *text;
	size_t n;
	struct why inner = {0};
	enum err e = file_read(path, HFTOKENIZER_FILE_MAX, &text, &n, why);
	if (e)
		return e;
	e = parse_file(text, n, out, &inner);
	free(text);
	return e ? err_why(why, e, "%s: %s", path, inner.text) : ERR_OK;
}

static enum err open_pair(
	const char *words, const char *merges, struct tokenizer **out, struct why *why)
{
	uint8_t *a, *b;
	struct hftokenizer_files f;
	struct why inner = {0};
	enum err e = file_read(words, HFTOKENIZER_FILE_MAX, &a, &f.n_words, why);
	if (e)
		return e;
	e = file_read(merges, HFTOKENIZER_FILE_MAX, &b, &f.n_merges, why);
	if (!e) {
		f.words = a;
		f.merges = b;
		e = hftokenizer_pair(&f, out, &inner);
		free(b);
		if (e)
			err_why(why, e, "%s and its merges: %s", words, inner.text);
	}
	free(a);
	return e;
}

/* Whether the two are there; then e is what came of them. */
static bool try_pair(const char *folder, const char *const names[2], struct tokenizer **out,
	enum err *e, struct why *why)
{
	char *words = alloc_must_printf("%s/%s", folder, names[0]);
	char *merges = alloc_must_printf("%s/%s", folder, names[1]);
	bool there = file_exists(words) && file_exists(merges);
	if (there)
		*e = open_pair(words, merges, out, why);
	free(words);
	free(merges);
	return there;
}

static enum err open_folder(const char *folder, struct tokenizer **out, struct why *why)
{
	char *whole = alloc_must_printf("%s/" WHOLE, folder);
	enum err e = ERR_OK;
	if (file_exists(whole))
		e = open_file(whole, out, why);
	else if (!try_pair(folder, pairs[0], out, &e, why) &&
		 !try_pair(folder, pairs[1], out, &e, why))
		e = err_why(why, ERR_missing,
			"the folder %s holds no tokenizer: neither tokenizer.json nor encoder.json "
			"with vocab.bpe nor vocab.json with merges.txt",
			folder);
	free(whole);
	return e;
}

enum err tokenizer_open(const char *path, struct tokenizer **out, struct why *why)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? open_folder(path, out, why)
							   : open_file(path, out, why);
}

bool tokenizer_open_has(const char *folder)
{
	const char *const names[] = {WHOLE, pairs[0][0], pairs[1][0]};
	bool has = false;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char *path = alloc_must_printf("%s/%s", folder, names[i]);
		has |= file_exists(path);
		free(path);
	}
	return has;
}
