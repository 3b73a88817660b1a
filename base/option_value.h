/* The text of one option to its value and back, bounds included. */
#ifndef BASE_OPTION_VALUE_H
#define BASE_OPTION_VALUE_H
#include "base/option.h"

/* Set *row->into.  where says where text stood ("--lr", "FILE line 3: lr"), for the sentence:
 * ERR_syntax for what cannot be read, ERR_range for what is out of bounds. */
enum err option_value_set(const struct option_row *row, const char *text, const char *where,
	struct why *why) MUST_CHECK;
/* What the value is, as text that option_value_set reads back to the same. */
void option_value_text(const struct option_row *row, char *out, size_t room);
/* What stands for the value in the help: "N", "SIZE"; "" for a flag. */
const char *option_value_word(enum option_kind kind);

#endif
