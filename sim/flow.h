/*
 * Transfers that share lines, as fluids.  A transfer passes over some lines at one rate; rates are
 * max-min fair: all of them rise together until a line is full, which holds those that pass over it
 * while the others rise on (progressive filling, as in Bertsekas and Gallager's Data Networks).
 * They change only when a transfer begins or has been sent, so that time goes from one such event
 * to the next.  What was sent is there a delay later, as a whole, and only then those begin that
 * wait for it.  No packets, no slow start, no losses.  Pure; the same calls give the same bits.
 */
#ifndef SIM_FLOW_H
#define SIM_FLOW_H
#include <stdint.h>

#define FLOW_LINES 4u        /* of one transfer */
#define FLOW_NONE UINT32_MAX /* in place of a line: no limit there */

struct flow;

struct flow *flow_new(void);
void flow_free(struct flow *f); /* NULL-safe */

/* A line of so many bytes a second, one way; its number.  0: no limit, FLOW_NONE. */
uint32_t flow_line(struct flow *f, double bytes_per_s);

struct flow_transfer {
	double bytes;   /* 0: a wait of delay_s, as for somebody's work */
	double delay_s; /* from the last byte's leaving to its arrival */
	double not_before_s;
	uint32_t line[FLOW_LINES]; /* or FLOW_NONE; each at most once */
};
/* Its number, ascending from 0. */
uint32_t flow_add(struct flow *f, const struct flow_transfer *t);
/* `second` begins when `first` is there; both have been added. */
void flow_after(struct flow *f, uint32_t second, uint32_t first);

/* `second` begins when the last byte of `first` has left, as the next one on one connection. */
void flow_behind(struct flow *f, uint32_t second, uint32_t first);

/* Plays all of it, once.  What waits for itself never begins. */
void flow_run(struct flow *f);
/* After flow_run: when it was there; infinite: never. */
double flow_end_s(const struct flow *f, uint32_t transfer);
double flow_carried(const struct flow *f, uint32_t line); /* bytes, in all */

#endif
