/*
 * Being asked to stop, in one place: the first SIGINT or SIGTERM makes signal_asked true and
 * signal_fd readable for good, so that every loop can end what it does; a second one ends the
 * process at once with status 130.
 */
#ifndef BASE_SIGNAL_H
#define BASE_SIGNAL_H
#include <stdbool.h>

/* Installs the handlers and ignores SIGPIPE; once, before threads and loops. */
void signal_watch(void);
bool signal_asked(void); /* any thread */
/* For poll or a loop; readable from the first signal on.  Not to be read or closed; -1 before
 * signal_watch. */
int signal_fd(void);

#endif
