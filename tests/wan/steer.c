#include "tests/wan/steer.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define WAIT_MS 5000

static enum err address(const char *path, struct sockaddr_un *a, struct why *why)
{
	*a = (struct sockaddr_un){.sun_family = AF_UNIX};
	if ((size_t)snprintf(a->sun_path, sizeof a->sun_path, "%s", path) >= sizeof a->sun_path)
		return err_why(why, ERR_toobig, "%s is too long for a socket's path", path);
	return ERR_OK;
}

static enum err failed(struct why *why, const char *what, const char *path)
{
	return err_why(why, err_from_errno(errno), "cannot %s %s: %s", what, path, strerror(errno));
}

enum err steer_listen(const char *path, int *fd, struct why *why)
{
	struct sockaddr_un a;
	*fd = -1;
	enum err err = address(path, &a, why);
	if (err)
		return err;
	*fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	mode_t before = umask(0177);
	if (*fd < 0 || bind(*fd, (struct sockaddr *)&a, sizeof a))
		err = failed(why, "listen at", path);
	(void)umask(before);
	if (err && *fd >= 0) {
		close(*fd);
		*fd = -1;
	}
	return err;
}

bool steer_receive(int fd, struct steer_line *line)
{
	line->from_len = sizeof line->from;
	ssize_t n = recvfrom(fd, line->text, sizeof line->text - 1, 0,
		(struct sockaddr *)&line->from, &line->from_len);
	if (n < 0)
		return false;
	line->text[n] = '\0';
	return true;
}

void steer_answer(int fd, const struct steer_line *line, const char *text)
{
	/* Who does not listen any more gets none. */
	(void)sendto(fd, text, strlen(text), MSG_DONTWAIT, (const struct sockaddr *)&line->from,
		line->from_len);
}

static enum err exchange(int fd, const struct sockaddr_un *to, const char *text, char *answer,
	size_t room, struct why *why)
{
	/* Binding to no name gives a name of the system's own, to be answered at. */
	struct sockaddr_un own = {.sun_family = AF_UNIX};
	if (bind(fd, (struct sockaddr *)&own, sizeof own.sun_family) ||
		sendto(fd, text, strlen(text), 0, (const struct sockaddr *)to, sizeof *to) < 0)
		return failed(why, "reach the bed at", to->sun_path);
	if (poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, WAIT_MS) != 1)
		return err_why(why, ERR_timeout, "the bed at %s does not answer", to->sun_path);
	ssize_t n = recv(fd, answer, room - 1, 0);
	if (n < 0)
		return failed(why, "read the answer of", to->sun_path);
	answer[n] = '\0';
	return ERR_OK;
}

enum err steer_ask(const char *path, const char *text, char *answer, size_t room, struct why *why)
{
	struct sockaddr_un a;
	enum err err = address(path, &a, why);
	if (err)
		return err;
	if (strlen(text) >= STEER_LINE)
		return err_why(why, ERR_toobig, "the command is longer than %d bytes", STEER_LINE);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return failed(why, "open a socket for", path);
	err = exchange(fd, &a, text, answer, room, why);
	close(fd);
	return err;
}
