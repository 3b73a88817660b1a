/* Where a passphrase comes from; never the command line. */
#ifndef NET_PASSPHRASE_H
#define NET_PASSPHRASE_H
#include <stdbool.h>
#include "base/err.h"

#define PASSPHRASE_MAX 1024

/* From the first line of file if it is not NULL, else the variable SHOAL_PASSPHRASE (which is then
 * taken out of the environment), else asked for on the terminal without echo, twice when it is new.
 * *out is to be given to passphrase_free. */
enum err passphrase_get(const char *file, bool fresh, char **out, struct why *why) MUST_CHECK;
void passphrase_free(char *p); /* wipes; NULL-safe */

#endif
