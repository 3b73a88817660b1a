#include "peer/dataset.h"
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"

static enum err matches(
	const struct dataset *d, const char *dir, const struct spec *spec, struct why *why)
{
	char want[HASH_HEX], have[HASH_HEX];
	hash_hex(&spec->manifest, want);
	hash_hex(&d->manifest->id, have);
	if (!hash_is_zero(&spec->manifest) && !hash_equal(&spec->manifest, &d->manifest->id))
		return err_why(why, ERR_hash,
			"%s holds data %.12s, but the spec's data.manifest is %.12s: prepare the "
			"same text "
			"with the same tokenizer, or name the right folder with --data",
			dir, have, want);
	if (spec->model.image[0])
		return err_why(why, ERR_unsupported,
			"%s holds a text, but the spec's model reads images of %u x %u x %u", dir,
			spec->model.image[0], spec->model.image[1], spec->model.image[2]);
	if (d->manifest->vocab > spec->model.vocab)
		return err_why(why, ERR_shape,
			"the vocabulary of the data in %s has %u ids, but model.vocab is only %u: "
			"set it to that, or prepare the text with the model's tokenizer",
			dir, d->manifest->vocab, spec->model.vocab);
	if (!corpus_sequences(d->corpus, CORPUS_train, spec->train.seq))
		return err_why(why, ERR_range,
			"the text in %s is too short for sequences of %u tokens", dir,
			spec->train.seq);
	return ERR_OK;
}

enum err dataset_open(
	const char *dir, const struct spec *spec, bool verify, struct dataset *out, struct why *why)
{
	*out = (struct dataset){0};
	char *list = alloc_must_printf("%s/manifest.json", dir),
	     *blobs = alloc_must_printf("%s/blobs", dir);
	enum err e = manifest_load(list, &out->manifest, why);
	if (!e)
		e = corpus_open(blobs, out->manifest, verify, &out->corpus, why);
	if (!e)
		e = matches(out, dir, spec, why);
	free(list);
	free(blobs);
	if (e)
		dataset_release(out);
	return e;
}

void dataset_release(struct dataset *d)
{
	if (!d)
		return;
	corpus_free(d->corpus);
	manifest_free(d->manifest);
	*d = (struct dataset){0};
}
