/* Whether a plug-in's file may be loaded into this process, before it is. */
#ifndef KERNELS_CPU_PLUGIN_FILE_H
#define KERNELS_CPU_PLUGIN_FILE_H
#include <stdbool.h>
#include <stddef.h>

/* False with a sentence in why: no plain file, no ELF file or one that is cut off (the dynamic
 * linker would die of it), or one that people can change who cannot change the program itself. */
bool plugin_file_check(const char *path, char *why, size_t size);

#endif
