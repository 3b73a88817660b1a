/* A contribution from anywhere is refused with a sentence, or means what it says; its payload the
 * same. */
#include <stdlib.h>
#include "round/contribution.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode(const struct contribution_view *v, const struct codec_params *codec, size_t n)
{
	struct codec_vector d;
	struct why why = {0};
	enum err err = contribution_decode(v, codec, n, &d, &why);
	if (err ? d.planes.data || why.code != err : d.n != n || d.count > n)
		abort();
	codec_release(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct codec_params codecs[] = {{SELECT_all, VALUES_f32, false, 64, 64, 0, 0},
		{SELECT_all, VALUES_int8, false, 64, 64, 0, 0},
		{SELECT_topk, VALUES_two, false, 64, 4, 0, 0},
		{SELECT_randk, VALUES_sign, false, 64, 4, 0, 0}};
	struct contribution_view v, alone;
	struct why why = {0};
	enum err err = contribution_parse_statement(data, size, &alone, &why);
	if (err ? why.code != err || !why.text[0]
		: alone.signature + SIGN_BYTES != data + size || alone.frame)
		abort();
	err = contribution_parse(data, size, &v, &why);
	if (err) {
		if (why.code != err || !why.text[0])
			abort();
		return 0;
	}
	uint8_t key[SIGN_PUBLIC] = {1};
	if (!contribution_verify(&v, key, &why))
		abort();
	if (v.says.n_spans < 1 || v.says.n_spans > SPAN_MAX || v.frame + v.frame_len != data + size)
		abort();
	struct hash id = contribution_id(&v);
	/* What precedes the frame says the same without it. */
	if (contribution_parse_statement(data, v.signed_len + SIGN_BYTES, &alone, &why))
		abort();
	struct hash same = contribution_id(&alone);
	if (!hash_equal(&id, &same) || alone.says.peer != v.says.peer)
		abort();
	for (size_t i = 0; i < sizeof codecs / sizeof codecs[0]; i++)
		decode(&v, &codecs[i], 100);
	return 0;
}
