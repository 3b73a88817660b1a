/* Frames from anywhere are refused with a sentence, or hold no more planes than was allowed. */
#include <stdlib.h>
#include "compress/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf planes;
	struct why why = {0};
	buf_init(&planes, 10000);
	enum err err = frame_unpack(data, size, &planes, &why);
	if (err ? planes.len > 0 || !why.text[0] || why.code != err
		: planes.len == 0 || planes.len > 10000)
		abort();
	buf_release(&planes);
	return 0;
}
