/*
 * How much memory there is for this process.  Plans are made with these figures, so that a program
 * that is too large says so before the system ends it.
 */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H
#include <stdint.h>

/* Bytes that the process may still take: the least of what the machine has without swapping, of
 * what each control group that it is in leaves (version 1 or 2; file pages that can be dropped
 * count as free), and of its limit of address space.  Files are read below root ("" but for tests);
 * UINT64_MAX when nothing tells. */
uint64_t memory_available(const char *root);
/* Bytes that it holds now, pages of mapped files left out; 0 when nothing tells. */
uint64_t memory_held(void);
/* The most that was ever resident, pages of mapped files included. */
uint64_t memory_peak(void);

#endif
