/*
 * A home router's UPnP for tests, in a network namespace of the test's own, which it shares with
 * all that the test starts: SSDP by multicast and SOAP over HTTP at 192.168.77.1; the outer address
 * is of the same machine, so that a port that is passed on can be reached there.  Runs on a thread;
 * the calls may come from one other.
 */
#ifndef TESTS_HELP_IGD_H
#define TESTS_HELP_IGD_H
#include <stdbool.h>
#include <stdint.h>

#define HELP_IGD_INNER "192.168.77.1"
#define HELP_IGD_OUTER "203.0.113.7"

/* Into such a namespace, for good; false: not allowed here. */
bool help_igd_net(void);
/* Whether the library is installed that asks routers. */
bool help_igd_library(void);

enum help_igd_mood {
	HELP_IGD_good,
	HELP_IGD_silent,     /* answers nobody */
	HELP_IGD_forbids,    /* every mapping */
	HELP_IGD_taken,      /* the port that is asked for, not the next ones */
	HELP_IGD_full,       /* every port is another's */
	HELP_IGD_for_ever,   /* leases have no end */
	HELP_IGD_double_nat, /* its outer address is inner to another router */
	HELP_IGD_strange,    /* its outer address is none */
	HELP_IGD_no_router,  /* a printer */
	HELP_IGD_garbage,    /* bytes that are no XML, also in SSDP */
	HELP_IGD_long_names, /* in the description, longer than anybody needs */
	HELP_IGD_endless,    /* a description without end */
	HELP_IGD_drips       /* the same, a byte now and then */
};

void help_igd_start(void);
void help_igd_stop(void); /* twice is fine */
void help_igd_mood(enum help_igd_mood mood);

struct help_igd_seen {
	unsigned adds, removes; /* that were done */
	uint16_t inner, outer;  /* of the last one that was added */
	uint64_t lease_s;
	bool open; /* it is there now */
};
struct help_igd_seen help_igd_seen(void);

#endif
