/* Inside the HTTPS server: a file, or a range of it, in pieces. */
#ifndef NET_HTTPS_FILE_H
#define NET_HTTPS_FILE_H
#include <stdint.h>
#include "net/https_reply.h"

/* Answers r; takes fd, a plain file of size bytes. */
void https_file_send(
	struct https_request *r, const struct https_reply_content *content, int fd, uint64_t size);

#endif
