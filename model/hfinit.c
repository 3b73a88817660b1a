#include "model/hfinit.h"
#include <stdio.h>

enum err hfinit_set(const char *dir, char out[static HFINIT_SET], struct why *why)
{
	struct hfmodel *m = NULL;
	enum err e = hfmodel_open(dir, &m, why);
	if (e)
		return e;
	struct hash h = hfmodel_hash(m);
	char hex[HASH_HEX];
	hash_hex(&h, hex);
	snprintf(out, HFINIT_SET, "init=%s", hex);
	hfmodel_close(m);
	return ERR_OK;
}

static enum err check(
	const struct hfmodel *m, const char *dir, const struct spec *spec, struct why *why)
{
	struct hash h = hfmodel_hash(m);
	char have[HASH_HEX], want[HASH_HEX];
	hash_hex(&h, have);
	hash_hex(&spec->init, want);
	if (!hash_equal(&h, &spec->init))
		return err_why(why, ERR_hash,
			"%s holds the weights %.12s, the spec's init is %.12s: give the folder "
			"that the spec was made for",
			dir, have, want);
	return hfmodel_suits(m, &spec->model, why);
}

enum err hfinit_open(
	const char *dir, const struct spec *spec, struct hfmodel **out, struct why *why)
{
	char want[HASH_HEX];
	hash_hex(&spec->init, want);
	if (!dir)
		return err_why(why, ERR_missing,
			"the spec begins with the weights %.12s (init): name their folder with "
			"--init DIR",
			want);
	struct hfmodel *m = NULL;
	enum err e = hfmodel_open(dir, &m, why);
	if (!e)
		e = check(m, dir, spec, why);
	if (e) {
		hfmodel_close(m);
		return e;
	}
	*out = m;
	return ERR_OK;
}
