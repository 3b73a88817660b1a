/* Every figure as Prometheus reads it. */
#ifndef COORDINATOR_METRICS_H
#define COORDINATOR_METRICS_H
#include "base/buf.h"
#include "coordinator/hub.h"

void metrics_print(const struct hub *h, uint64_t now, struct buf *out);

#endif
