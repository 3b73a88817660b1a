/* Which build this is. */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

/* What `git describe` said when the program was built, or "unversioned". */
const char *version_text(void);

#endif
