/* A scratch folder for one test, its files, and what a refusal must say.  One thread only. */
#ifndef TESTS_HELP_MODEL_H
#define TESTS_HELP_MODEL_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* For cmocka: make the folder before the test, and remove it with all that it holds after. */
int help_model_setup(void **state);
int help_model_teardown(void **state);
/* The path of name in the folder; "" gives the folder.  Valid until the teardown. */
const char *help_model_path(const char *name);
void help_model_write(const char *name, const void *bytes, size_t n);
/* The content with a NUL behind it; valid until the teardown. */
uint8_t *help_model_read(const char *name, size_t *n);
/* Entries of a folder in the folder. */
size_t help_model_entries(const char *name);
/* The refusal has this code, and its sentence this part. */
void help_model_told(const struct why *why, enum err code, const char *part);
/* About n bytes of made-up prose, the same for the same seed; valid until the teardown. */
char *help_model_prose(uint64_t seed, size_t n);

#endif
