/* A status file from anywhere is refused with a sentence, or holds what can be written and read
 * again to the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/err.h"
#include "peer/statusfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct statusfile s;
	struct why why = {0};
	enum err e = statusfile_parse(data, size, "status.json", &s, &why);
	if (e && (why.code != e || !why.text[0] || s.pid))
		abort();
	if (!e && (s.pid < 1 || !memchr(s.reason, 0, sizeof s.reason) ||
			  !memchr(s.name, 0, sizeof s.name) || !memchr(s.run, 0, sizeof s.run)))
		abort();
	return 0;
}
