#include <string.h>
#include "compress/floats.h"
#include "compress/values.h"

/*
 * A sign and a power of e: code 0 is 0, code c up to most stands for e^-(rho (most - c)) times the
 * scale, the largest magnitude.  Between two powers the geometric middle decides, so that the
 * relative error of what is not 0 is at most e^(rho/2) - 1.  The sign is the bit above.
 */
#define STEPS 127
/* e^-(j / 8) as floats, printed by Python's math.exp and float.hex. */
static const float power[STEPS] = {
	0x1.00p+0f,
	0x1.c3d6a20p-1f,
	0x1.8ebefa0p-1f,
	0x1.5fe4620p-1f,
	0x1.368b300p-1f,
	0x1.120dca0p-1f,
	0x1.e3b40e0p-2f,
	0x1.aadde00p-2f,
	0x1.78b5640p-2f,
	0x1.4c71b20p-2f,
	0x1.2561840p-2f,
	0x1.02e8620p-2f,
	0x1.c8f8780p-3f,
	0x1.93466e0p-3f,
	0x1.63e3980p-3f,
	0x1.3a122c0p-3f,
	0x1.152aaa0p-3f,
	0x1.e9328c0p-4f,
	0x1.afb7180p-4f,
	0x1.7cfcc20p-4f,
	0x1.50385c0p-4f,
	0x1.28b6980p-4f,
	0x1.05d9380p-4f,
	0x1.ce29380p-5f,
	0x1.97db0c0p-5f,
	0x1.67ee6e0p-5f,
	0x1.3da3680p-5f,
	0x1.1850980p-5f,
	0x1.eec1020p-6f,
	0x1.b49e6a0p-6f,
	0x1.8150940p-6f,
	0x1.540a000p-6f,
	0x1.2c155c0p-6f,
	0x1.08d29c0p-6f,
	0x1.d369120p-7f,
	0x1.9c7cfe0p-7f,
	0x1.6c05040p-7f,
	0x1.413f040p-7f,
	0x1.1b7fae0p-7f,
	0x1.f45fa00p-8f,
	0x1.b993fe0p-8f,
	0x1.85b0fa0p-8f,
	0x1.57e6c00p-8f,
	0x1.2f7dec0p-8f,
	0x1.0bd4a60p-8f,
	0x1.d8b82e0p-9f,
	0x1.a12c660p-9f,
	0x1.70277e0p-9f,
	0x1.44e5200p-9f,
	0x1.1eb8060p-9f,
	0x1.fa0e960p-10f,
	0x1.be97fe0p-10f,
	0x1.8a1e180p-10f,
	0x1.5bceba0p-10f,
	0x1.32f0660p-10f,
	0x1.0edf6e0p-10f,
	0x1.de16ba0p-11f,
	0x1.a5e9700p-11f,
	0x1.7455fe0p-11f,
	0x1.4895d60p-11f,
	0x1.21f9ba0p-11f,
	0x1.ffce120p-12f,
	0x1.c3aa920p-12f,
	0x1.8e98180p-12f,
	0x1.5fc2100p-12f,
	0x1.366ce60p-12f,
	0x1.11f3100p-12f,
	0x1.e384e20p-13f,
	0x1.aab4400p-13f,
	0x1.7890a60p-13f,
	0x1.4c51460p-13f,
	0x1.2544e80p-13f,
	0x1.02cf220p-13f,
	0x1.c8cbe60p-14f,
	0x1.931f1a0p-14f,
	0x1.63c0e20p-14f,
	0x1.39f38a0p-14f,
	0x1.150fa20p-14f,
	0x1.e902d60p-15f,
	0x1.af8cfe0p-15f,
	0x1.7cd79c0p-15f,
	0x1.5017920p-15f,
	0x1.2899a80p-15f,
	0x1.05bfb00p-15f,
	0x1.cdfc260p-16f,
	0x1.97b3460p-16f,
	0x1.67cb540p-16f,
	0x1.3d846e0p-16f,
	0x1.1835420p-16f,
	0x1.ee90c20p-17f,
	0x1.b473d60p-17f,
	0x1.812b000p-17f,
	0x1.53e8d80p-17f,
	0x1.2bf8180p-17f,
	0x1.08b8c80p-17f,
	0x1.d33b7c0p-18f,
	0x1.9c54c40p-18f,
	0x1.6be1840p-18f,
	0x1.411fb00p-18f,
	0x1.1b64080p-18f,
	0x1.f42ed40p-19f,
	0x1.b968ee0p-19f,
	0x1.858af80p-19f,
	0x1.57c5360p-19f,
	0x1.2f60540p-19f,
	0x1.0bba880p-19f,
	0x1.d88a140p-20f,
	0x1.a103b80p-20f,
	0x1.7003980p-20f,
	0x1.44c5700p-20f,
	0x1.1e9c100p-20f,
	0x1.f9dd3c0p-21f,
	0x1.be6c700p-21f,
	0x1.89f7aa0p-21f,
	0x1.5bacd00p-21f,
	0x1.32d2780p-21f,
	0x1.0ec5040p-21f,
	0x1.dde81a0p-22f,
	0x1.a5c04a0p-22f,
	0x1.7431ae0p-22f,
	0x1.4875ca0p-22f,
	0x1.21dd720p-22f,
	0x1.ff9c280p-23f,
	0x1.c37e860p-23f,
	0x1.8e71380p-23f,
	0x1.5f9fc20p-23f,
	0x1.364ea20p-23f,
};

struct kind {
	int most;          /* the largest code without its sign */
	int stride;        /* in the table: 8 rho */
	double per_octave; /* codes: ln 2 / rho */
	double middle;     /* e^-(rho / 2) */
};
static const struct kind log8 = {127, 1, 0x1.62e42fefa39efp+2, 0x1.e0fabfbc702a4p-1}; // e^-(1/16)
static const struct kind log4 = {7, 4, 0x1.62e42fefa39efp+0, 0x1.8ebef9eac820bp-1};   // e^-(1/4)

/*
 * How many codes' borders x (from 0 to about 1) has reached.  The bits of a double, less those of
 * 1, are 2^52 times its logarithm to base 2 or, at most, 0.087 less than that, which is less than
 * half a code.  So the code is one of two, and the border between them decides; 0.49 instead of a
 * half leaves room for what is rounded.
 */
static int code_of(const struct kind *k, double x)
{
	int64_t bits;
	memcpy(&bits, &x, sizeof bits);
	double octaves = (double)((int32_t)(bits >> 32) - 0x3ff00000) * 0x1p-20;
	int code = (int)(k->most + 0.49 + octaves * k->per_octave);
	code = code < 0 ? 0 : code < k->most ? code : k->most - 1;
	double border = (double)power[(k->most - 1 - code) * k->stride] * k->middle;
	return code + (x >= border);
}

static void encode(const struct kind *k, const float *v, size_t m, uint8_t *codes, uint8_t *side)
{
	double largest = (double)floats_from(values_largest(v, m));
	double scale = (double)values_set_scale(largest, VALUES_SCALE_MOST, side);
	for (size_t i = 0; i < m; i++) {
		int code = scale > 0
				   ? code_of(k, (double)floats_from(floats_magnitude(v[i])) / scale)
				   : 0;
		bool minus = code && floats_bits(v[i]) >> 31;
		codes[i] = (uint8_t)(code + (minus ? k->most + 1 : 0));
	}
}

static enum err decode(const struct kind *k, const uint8_t *codes, size_t m, const uint8_t *side,
	float *out, struct why *why)
{
	float scale;
	enum err err = values_get_scale(side, VALUES_SCALE_MOST, &scale, why);
	if (err)
		return err;
	int largest = 0;
	bool signed_zero = false;
	for (size_t i = 0; i < m; i++) {
		int code = codes[i] & k->most;
		bool minus = codes[i] > k->most;
		largest = code > largest ? code : largest;
		signed_zero |= minus && code == 0;
		float size = code ? power[(k->most - code) * k->stride] * scale : 0;
		out[i] = minus ? -size : size;
	}
	if (signed_zero || largest != (scale > 0 ? k->most : 0))
		return err_why(why, ERR_syntax, "the codes of a group are not what its scale says");
	return ERR_OK;
}

static void encode_8(const float *v, size_t m, uint8_t *codes, uint8_t *side)
{
	encode(&log8, v, m, codes, side);
}

static enum err decode_8(
	const uint8_t *codes, size_t m, const uint8_t *side, float *out, struct why *why)
{
	return decode(&log8, codes, m, side, out, why);
}

static void encode_4(const float *v, size_t m, uint8_t *codes, uint8_t *side)
{
	encode(&log4, v, m, codes, side);
}

static enum err decode_4(
	const uint8_t *codes, size_t m, const uint8_t *side, float *out, struct why *why)
{
	return decode(&log4, codes, m, side, out, why);
}

const struct values_row values_log_8 = {
	.name = "log8", .bits = 8, .side = 2, .encode = encode_8, .decode = decode_8};
const struct values_row values_log_4 = {
	.name = "log4", .bits = 4, .side = 2, .encode = encode_4, .decode = decode_4};
