/* Finding, loading and trying the plug-in with a library of products (provider.h). */
#ifndef KERNELS_CPU_PLUGIN_H
#define KERNELS_CPU_PLUGIN_H
#include "kernels/cpu/provider.h"

#define PLUGIN_FILE "libexec/shoal/shoal-onednn.so"

/* The plug-in's path in out: below the folder of the program's own file, or beside that folder, and
 * nowhere else.  NULL when there is none. */
const char *plugin_find(char *out, size_t size);
/* path NULL: none.  NULL, with a sentence in why, for what is no plug-in of ours.  It stays in the
 * process, and is the same table when it is loaded again. */
const struct provider *plugin_load(const char *path, char *why, size_t size);
/* Small products of every form against plain loops; false with a sentence in why. */
bool plugin_check(const struct provider *p, struct library *l, char *why, size_t size);

#endif
