/* A client of a coordinator that serves, found by what a user names.  Any thread. */
#ifndef COORDINATOR_CONTACT_H
#define COORDINATOR_CONTACT_H
#include "base/err.h"
#include "net/https_client.h"

/* word: the folder of a run that is served on this machine, a file with a join link, or "-" for
 * standard input.  ERR_missing says what is not there; else as https_client_contact. */
enum err contact(const char *word, struct https_client **out, struct why *why) MUST_CHECK;

#endif
