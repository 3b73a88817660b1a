#include "coordinator/failpoint.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = {
#define X(name) #name,
	FAILPOINT_LIST(X)
#undef X
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static enum failpoint wanted = FAILPOINTS;
static atomic_long left;

static void set_wish(const char *text)
{
	size_t len = text ? strcspn(text, ":") : 0;
	wanted = FAILPOINTS;
	for (int i = 0; len && i < FAILPOINTS; i++)
		if (strlen(names[i]) == len && !memcmp(text, names[i], len))
			wanted = (enum failpoint)i;
	atomic_store(&left, text && text[len] ? strtol(text + len + 1, NULL, 10) : 1);
}

static void read_wish(void)
{
	set_wish(getenv("SHOAL_FAILPOINT"));
}

void failpoint_wish(const char *text)
{
	pthread_once(&once, read_wish);
	set_wish(text);
}

void failpoint(enum failpoint at)
{
	pthread_once(&once, read_wish);
	if (at == wanted && atomic_fetch_sub(&left, 1) == 1)
		kill(getpid(), SIGKILL);
}
