/* Commands to a bed that runs, one datagram each, over a socket in the file system: nobody holds a
 * connection, so nobody can hold the bed up. */
#ifndef TESTS_WAN_STEER_H
#define TESTS_WAN_STEER_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "base/err.h"

#define STEER_LINE 512
#define STEER_ANSWER 65536

struct steer_line {
	char text[STEER_LINE]; /* cut at its size */
	struct sockaddr_un from;
	socklen_t from_len;
};

/* path must not exist; only its owner may write to it. */
enum err steer_listen(const char *path, int *fd, struct why *why) MUST_CHECK;
bool steer_receive(int fd, struct steer_line *line); /* false: there is none */
void steer_answer(int fd, const struct steer_line *line, const char *text);
/* Sends text to the bed at path and waits up to five seconds for the answer. */
enum err steer_ask(
	const char *path, const char *text, char *answer, size_t room, struct why *why) MUST_CHECK;

#endif
