/* A scratch folder for one test, and its files.  One thread only. */
#ifndef TESTS_HELP_BASE_H
#define TESTS_HELP_BASE_H
#include <stddef.h>

/* For cmocka: make the folder before the test, and remove it with all that it holds after. */
int help_base_setup(void **state);
int help_base_teardown(void **state);
/* The path of name in the folder; "" gives the folder.  Valid until the teardown. */
const char *help_base_path(const char *name);
void help_base_write(const char *name, const void *bytes, size_t n);
/* The content as a string, the size in *n unless NULL; valid until the teardown. */
const char *help_base_read(const char *name, size_t *n);
/* How many entries the folder, or the folder name in it, has. */
size_t help_base_entries(const char *name);

#endif
