#include "compress/dct.h"
#include <string.h>

enum { SIDE = 64, COLUMNS = 8, PAIRS = COLUMNS / 2, FACTORS = (SIDE * SIDE - 1) / 3 };

/* Two columns: a register of SSE2 and of NEON, which every processor here has. */
typedef double pair __attribute__((vector_size(16)));

/*
 * sqrt(2/64) cos(pi i / 128), each the double nearest to the exact value (computed in 60 decimal
 * digits and rounded once, so that no libm has a say).
 */
static const double cosines[SIDE + 1] = {0x1.6a09e667f3bcdp-3, 0x1.69edfc686963bp-3,
	0x1.699a42b7bce27p-3, 0x1.690ec63f1beabp-3, 0x1.684b9c80f1a8bp-3, 0x1.6750e39595a5ap-3,
	0x1.661ec226a7bbbp-3, 0x1.64b5676919d30p-3, 0x1.63150b15e8536p-3, 0x1.613ded6182691p-3,
	0x1.5f3056f1e3716p-3, 0x1.5cec98d35f143p-3, 0x1.5a730c6c21c67p-3, 0x1.57c4136e67a12p-3,
	0x1.54e017c96baeap-3, 0x1.51c78b9911fffp-3, 0x1.4e7ae9144f0fcp-3, 0x1.4afab27a4f286p-3,
	0x1.474771fe60b6ap-3, 0x1.4361b9b2a4a09p-3, 0x1.3f4a237187eafp-3, 0x1.3b0150c60a24fp-3,
	0x1.3687ead2d444fp-3, 0x1.31dea23823cb1p-3, 0x1.2d062ef88e319p-3, 0x1.27ff505ca0dcdp-3,
	0x1.22caccd561eb3p-3, 0x1.1d6971ddb671bp-3, 0x1.17dc13dab2dd6p-3, 0x1.12238dfada5bcp-3,
	0x1.0c40c21452580p-3, 0x1.063498820f420p-3, 0x1.0000000000000p-3, 0x1.f347db0c7b1d9p-4,
	0x1.e642b84688ffdp-4, 0x1.d8f299aa7c4fbp-4, 0x1.cb598cc4beea0p-4, 0x1.bd79aa60c7172p-4,
	0x1.af55163650cc8p-4, 0x1.a0edfe94e7bb8p-4, 0x1.92469c0dcf32dp-4, 0x1.8361311c551b0p-4,
	0x1.744009cc9d910p-4, 0x1.64e57b60f4e28p-4, 0x1.5553e3f5b5e58p-4, 0x1.458daa23d2e11p-4,
	0x1.35953ca20f6f6p-4, 0x1.256d11e4f9f6dp-4, 0x1.1517a7bdb3895p-4, 0x1.049782f795275p-4,
	0x1.e7de5de983226p-5, 0x1.c6427a9365f8cp-5, 0x1.a4608aafa8527p-5, 0x1.823dc7ce68f99p-5,
	0x1.5fdf757ecdca0p-5, 0x1.3d4ae07f36dbap-5, 0x1.1a855dec071b5p-5, 0x1.ef2894da4528dp-6,
	0x1.a8fa12c485c2fp-6, 0x1.628a081c84d08p-6, 0x1.1be35182fe5aap-6, 0x1.aa21a80dd8c26p-7,
	0x1.1c3af6eee187ap-7, 0x1.1c50e2d2d2b76p-8, 0};

/* C[u][j] of dct.h, u > 0. */
static double cosine(unsigned u, unsigned j)
{
	unsigned turn = (2 * j + 1) * u % (4 * SIDE);
	if (turn > 2 * SIDE)
		turn = 4 * SIDE - turn;
	return turn > SIDE ? -cosines[2 * SIDE - turn] : cosines[turn];
}

/*
 * A row of C is symmetric or antisymmetric round its middle.  So the sums v[j] + v[last - j] are
 * all that the even rows need, which are a transform of half the length again; the differences are
 * what the odd rows need.  The factors of the odd rows, level by level: 32 x 32, 16 x 16, ..., 1
 * x 1.
 */
struct factors {
	double f[FACTORS];
};

static void factors_fill(struct factors *to)
{
	double *f = to->f;
	for (unsigned half = SIDE / 2, every = 1; half > 0; half /= 2, every *= 2)
		for (unsigned k = 0; k < half; k++)
			for (unsigned j = 0; j < half; j++)
				*f++ = cosine((2 * k + 1) * every, j);
}

static void columns_get(const double *at, unsigned row, pair *to)
{
	memcpy(to, at + row * SIDE, PAIRS * sizeof *to);
}

static void columns_put(double *at, unsigned row, const pair *from)
{
	memcpy(at + row * SIDE, from, PAIRS * sizeof *from);
}

/* n rows, each times its factor (step apart), in order.  Written out: gcc keeps only sums that have
 * names in registers, which makes it twice as fast. */
static inline void combine(
	const double *f, unsigned step, pair (*rows)[PAIRS], unsigned n, pair *to)
{
	pair a = {0}, b = {0}, c = {0}, d = {0};
	for (unsigned i = 0; i < n; i++, f += step) {
		a += *f * rows[i][0];
		b += *f * rows[i][1];
		c += *f * rows[i][2];
		d += *f * rows[i][3];
	}
	to[0] = a;
	to[1] = b;
	to[2] = c;
	to[3] = d;
}

/* Some columns of C a, in place; at is the first of them in a's first row. */
static void forward(double *at, const struct factors *factors)
{
	const double *f = factors->f;
	pair v[SIDE][PAIRS], odd[SIDE / 2][PAIRS], sum[PAIRS];
	for (unsigned j = 0; j < SIDE; j++)
		columns_get(at, j, v[j]);
	for (unsigned half = SIDE / 2, every = 1; half > 0; half /= 2, every *= 2) {
		for (unsigned j = 0; j < half; j++)
			for (unsigned q = 0; q < PAIRS; q++) {
				pair mirrored = v[2 * half - 1 - j][q];
				odd[j][q] = v[j][q] - mirrored;
				v[j][q] = v[j][q] + mirrored;
			}
		for (unsigned k = 0; k < half; k++, f += half) {
			combine(f, 1, odd, half, sum);
			columns_put(at, (2 * k + 1) * every, sum);
		}
	}
	for (unsigned q = 0; q < PAIRS; q++)
		v[0][q] = v[0][q] * 0.125;
	columns_put(at, 0, v[0]);
}

/* Some columns of C^T a: the same steps backwards. */
static void inverse(double *at, const struct factors *factors)
{
	const double *f = factors->f + FACTORS;
	pair v[SIDE][PAIRS], odd[SIDE / 2][PAIRS], sum[PAIRS];
	columns_get(at, 0, v[0]);
	for (unsigned q = 0; q < PAIRS; q++)
		v[0][q] = v[0][q] * 0.125;
	for (unsigned half = 1, every = SIDE / 2; half < SIDE; half *= 2, every /= 2) {
		f -= half * half;
		for (unsigned k = 0; k < half; k++)
			columns_get(at, (2 * k + 1) * every, odd[k]);
		for (unsigned j = 0; j < half; j++) {
			combine(f + j, half, odd, half, sum);
			for (unsigned q = 0; q < PAIRS; q++) {
				v[2 * half - 1 - j][q] = v[j][q] - sum[q];
				v[j][q] = v[j][q] + sum[q];
			}
		}
	}
	for (unsigned j = 0; j < SIDE; j++)
		columns_put(at, j, v[j]);
}

static void transpose(double *square)
{
	for (unsigned i = 0; i < SIDE; i++)
		for (unsigned j = 0; j < i; j++) {
			double other = square[i * SIDE + j];
			square[i * SIDE + j] = square[j * SIDE + i];
			square[j * SIDE + i] = other;
		}
}

/* Columns first, then rows, which are the columns of what is transposed. */
static void both_ways(double *square, void (*columns)(double *at, const struct factors *factors))
{
	struct factors factors;
	factors_fill(&factors);
	for (int way = 0; way < 2; way++) {
		for (unsigned column = 0; column < SIDE; column += COLUMNS)
			columns(square + column, &factors);
		transpose(square);
	}
}

static void in_double(float *v, void (*columns)(double *at, const struct factors *factors))
{
	double square[DCT_CHUNK];
	for (unsigned i = 0; i < DCT_CHUNK; i++)
		square[i] = (double)v[i];
	both_ways(square, columns);
	for (unsigned i = 0; i < DCT_CHUNK; i++)
		v[i] = (float)square[i];
}

void dct_forward(float *v, uint32_t len)
{
	if (len == DCT_CHUNK)
		in_double(v, forward);
}

void dct_inverse(float *v, uint32_t len)
{
	if (len == DCT_CHUNK)
		in_double(v, inverse);
}

void dct_inverse_double(double *v, uint32_t len)
{
	if (len == DCT_CHUNK)
		both_ways(v, inverse);
}
