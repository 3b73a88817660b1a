/*
 * Where a text is split before tokens are made of it: merges never cross the border of a piece.
 * There is one rule for each kind of tokenizer.  All are pure functions of the bytes.
 *
 * byte, bpe.  Bytes fall in four classes: letters (A-Z, a-z and every byte from 0x80 up, so that
 * UTF-8 letters stay together), digits, white space (space, \t \n \v \f \r) and the rest.  A piece
 * is a run of one class, optionally with one space in front; a run of white space leaves its last
 * byte, if that is a space, to what follows it.  A piece ends after SPLIT_BPE_MAX bytes at the
 * latest.
 *
 * gpt2.  The expression of GPT-2's encoder, with the classes of model/unicode.h:
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * llama3.  The expression that came with cl100k and Llama 3:
 *   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
 *   \s*[\r\n]+|\s+(?!\S)|\s+
 *
 * In the last two a byte that is no part of a UTF-8 character is a character of its own that is
 * neither letter nor number nor white space, as U+FFFD would be.  Their expressions know no longest
 * piece; here one ends after SPLIT_PIECE_MAX bytes, so that memory has a bound.
 */
#ifndef MODEL_SPLIT_H
#define MODEL_SPLIT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPLIT_BPE_MAX 128u
#define SPLIT_PIECE_MAX (4u << 20)

enum split { SPLIT_bpe, SPLIT_gpt2, SPLIT_llama3, SPLIT_RULES };

/* Length of the first piece of the n > 0 bytes.  With more, the bytes are the beginning of a longer
 * text; the answer is then 0 when it depends on what follows them.  It never does when n >
 * SPLIT_PIECE_MAX. */
size_t split_piece(enum split rule, const uint8_t *bytes, size_t n, bool more);

/* The first place >= from (and > 0) where a piece begins under every rule and whatever stands
 * before it (so that a text can be cut there without looking at what came earlier); n when none is
 * found.  Not every border is found, but in ordinary text one in every line. */
size_t split_border(const uint8_t *bytes, size_t n, size_t from);
/* The last such place before n; 0 when none is found. */
size_t split_last_border(const uint8_t *bytes, size_t n);

#endif
