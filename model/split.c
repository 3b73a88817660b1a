#include "model/split.h"
#include <assert.h>
#include "model/unicode.h"

/* ---- the rule of bpe: bytes only */

enum byte_class { LETTER, DIGIT, SPACE, OTHER };

static enum byte_class byte_class(uint8_t b)
{
	if (b >= 0x80 || (b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z'))
		return LETTER;
	if (b >= '0' && b <= '9')
		return DIGIT;
	return b == ' ' || (b >= '\t' && b <= '\r') ? SPACE : OTHER;
}

static size_t bpe_piece(const uint8_t *bytes, size_t n)
{
	size_t most = n < SPLIT_BPE_MAX ? n : SPLIT_BPE_MAX;
	size_t i = bytes[0] == ' ' && most > 1 && byte_class(bytes[1]) != SPACE ? 1 : 0;
	enum byte_class c = byte_class(bytes[i]);
	while (i < most && byte_class(bytes[i]) == c)
		i++;
	/* The space before a word belongs to the word. */
	bool more = i < n && byte_class(bytes[i]) != SPACE;
	return c == SPACE && more && i > 1 && bytes[i - 1] == ' ' ? i - 1 : i;
}

/* ---- the expressions: characters */

#define END 4 /* a class of its own: nothing follows */

struct scan {
	const uint8_t *bytes;
	size_t n;
	bool asked_beyond; /* the n bytes alone did not tell */
};

/* The class of the character at i, and where the next one begins. */
static unsigned look(struct scan *s, size_t i, size_t *next)
{
	*next = i + 1;
	if (i >= s->n) {
		s->asked_beyond = true;
		return END;
	}
	if (s->bytes[i] < 0x80)
		return unicode_ascii[s->bytes[i]];
	size_t len;
	uint32_t code = unicode_decode(s->bytes + i, s->n - i, &len);
	if (code == UNICODE_PARTIAL)
		s->asked_beyond = true;
	*next = i + len;
	return code >= UNICODE_PARTIAL ? UNICODE_other : unicode_class(code);
}

static unsigned class_at(struct scan *s, size_t i)
{
	size_t next;
	return look(s, i, &next);
}

/* The end of the run of one class from i on, and where its last character begins. */
static size_t run_end(struct scan *s, size_t i, unsigned class, size_t *last)
{
	size_t next;
	while (look(s, i, &next) == class) {
		*last = i;
		i = next;
	}
	return i;
}

static size_t run(struct scan *s, size_t i, unsigned class)
{
	size_t last;
	return run_end(s, i, class, &last);
}

/* \s+(?!\S)|\s+ : the last character of a run goes to what follows, unless it is alone. */
static size_t spaces(struct scan *s)
{
	size_t last = 0, end = run_end(s, 0, UNICODE_space, &last);
	return class_at(s, end) == END || last == 0 ? end : last;
}

static uint8_t byte_at(struct scan *s, size_t i)
{
	if (i < s->n)
		return s->bytes[i];
	s->asked_beyond = true;
	return 0;
}

/* 's|'t|'re|'ve|'m|'ll|'d : the length behind an apostrophe, or 0. */
static size_t contraction(uint8_t a, uint8_t b)
{
	if (a == 's' || a == 't' || a == 'm' || a == 'd')
		return 2;
	return (b == 'e' && (a == 'r' || a == 'v')) || (a == 'l' && b == 'l') ? 3 : 0;
}

static size_t gpt2_piece(struct scan *s)
{
	if (s->bytes[0] == '\'') {
		uint8_t a = byte_at(s, 1);
		bool two = a == 'r' || a == 'v' || a == 'l';
		size_t len = contraction(a, two ? byte_at(s, 2) : 0);
		if (len)
			return len;
	}
	size_t at = s->bytes[0] == ' ';
	unsigned class = class_at(s, at);
	return class == UNICODE_space || class == END ? spaces(s) : run(s, at, class);
}

static uint8_t lower(uint8_t b)
{
	return b >= 'A' && b <= 'Z' ? b + 32 : b;
}

/* In any case; U+017F (c5 bf) is a small s of another shape, and folds to s. */
static size_t folded_contraction(struct scan *s)
{
	uint8_t a = lower(byte_at(s, 1));
	if (a == 0xc5)
		return byte_at(s, 2) == 0xbf ? 3 : 0;
	bool two = a == 'r' || a == 'v' || a == 'l';
	return contraction(a, two ? lower(byte_at(s, 2)) : 0);
}

static size_t up_to_three_numbers(struct scan *s)
{
	size_t at = 0, next;
	for (unsigned i = 0; i < 3 && look(s, at, &next) == UNICODE_number; i++)
		at = next;
	return at;
}

static bool is_newline(uint8_t b)
{
	return b == '\r' || b == '\n';
}

/* \s*[\r\n]+|\s+(?!\S)|\s+ : a run of white space up to its last newline, if it has one. */
static size_t lines(struct scan *s)
{
	size_t end = run(s, 0, UNICODE_space), at = end;
	while (at > 0 && !is_newline(s->bytes[at - 1]))
		at--;
	return at > 0 ? at : spaces(s);
}

static size_t llama3_piece(struct scan *s)
{
	size_t len = s->bytes[0] == '\'' ? folded_contraction(s) : 0, next;
	if (len)
		return len;
	unsigned class = look(s, 0, &next);
	if (class == UNICODE_letter)
		return run(s, 0, class);
	if (class == UNICODE_number)
		return up_to_three_numbers(s);
	if (!is_newline(s->bytes[0]) && class_at(s, next) == UNICODE_letter)
		return run(s, next, UNICODE_letter);
	size_t at = s->bytes[0] == ' ';
	if (class_at(s, at) != UNICODE_other)
		return lines(s);
	for (at = run(s, at, UNICODE_other); is_newline(byte_at(s, at));)
		at++;
	return at;
}

size_t split_piece(enum split rule, const uint8_t *bytes, size_t n, bool more)
{
	assert(n > 0);
	if (rule == SPLIT_bpe)
		return more && n <= SPLIT_BPE_MAX ? 0 : bpe_piece(bytes, n);
	struct scan s = {.bytes = bytes, .n = n < SPLIT_PIECE_MAX ? n : SPLIT_PIECE_MAX};
	size_t len = rule == SPLIT_gpt2 ? gpt2_piece(&s) : llama3_piece(&s);
	return more && n <= SPLIT_PIECE_MAX && s.asked_beyond ? 0 : len;
}

/* ---- borders for all */

static bool is_word(uint8_t b)
{
	return b < 0x80 &&
	       (unicode_ascii[b] == UNICODE_letter || unicode_ascii[b] == UNICODE_number);
}

/* After a letter or a digit no rule goes on with white space, and none goes on from a newline to
 * something else. */
static bool is_border(const uint8_t *bytes, size_t n, size_t at)
{
	if (is_word(bytes[at - 1]))
		return bytes[at] == ' ' || bytes[at] == '\n';
	struct scan s = {.bytes = bytes, .n = n};
	return bytes[at - 1] == '\n' && class_at(&s, at) != UNICODE_space && !s.asked_beyond;
}

size_t split_border(const uint8_t *bytes, size_t n, size_t from)
{
	for (size_t at = from ? from : 1; at < n; at++)
		if (is_border(bytes, n, at))
			return at;
	return n;
}

size_t split_last_border(const uint8_t *bytes, size_t n)
{
	size_t at = n ? n - 1 : 0;
	while (at > 0 && !is_border(bytes, n, at))
		at--;
	return at;
}
