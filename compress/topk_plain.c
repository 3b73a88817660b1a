/* For what the compiler takes for granted: SSE2 on x86-64, NEON on aarch64. */
#include "compress/topk_body.h"
