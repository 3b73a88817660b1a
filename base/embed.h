/* A file as bytes in the binary: EMBED(page_html, "coordinator/web/index.html") gives
 * page_html[] and page_html_end[]; the path is seen from the project's root. */
#ifndef BASE_EMBED_H
#define BASE_EMBED_H
#include <stdint.h>

#define EMBED(name, path) \
	__asm__(".pushsection .rodata\n.balign 16\n.global " #name "\n" #name ":\n.incbin \"" path \
		"\"\n.global " #name "_end\n" #name "_end:\n.byte 0\n.popsection\n"); \
	extern const uint8_t name[], name##_end[]

#endif
