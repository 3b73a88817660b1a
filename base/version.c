#include "base/version.h"

#ifndef VERSION
#define VERSION "unversioned"
#endif

const char *version_text(void)
{
	return VERSION;
}
