#include "net/passphrase.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/file.h"
#include "net/keyfile.h"

#define VARIABLE "SHOAL_PASSPHRASE"
#define INTERRUPT 3 /* what Ctrl-C sends */

static enum err from_file(const char *file, char **out, struct why *why)
{
	enum err e = keyfile_text(file, PASSPHRASE_MAX, out, why);
	if (e)
		return e;
	(*out)[strcspn(*out, "\r\n")] = 0;
	if (**out)
		return ERR_OK;
	passphrase_free(*out);
	*out = NULL;
	return err_why(why, ERR_syntax, "the first line of %s is empty", file);
}

static void from_environment(char *value, char **out)
{
	*out = alloc_must_strdup(value);
	explicit_bzero(value, strlen(value));
	unsetenv(VARIABLE); // no program that we start shall see it
}

/* One line from the terminal without echo. */
static enum err ask(int fd, const char *prompt, char line[static PASSPHRASE_MAX], struct why *why)
{
	struct termios before, quiet;
	size_t n = 0;
	if (tcgetattr(fd, &before) != 0)
		return file_why(why, "use", "/dev/tty", errno);
	quiet = before;
	// Without signals, so that an interrupt does not leave the terminal silent.
	quiet.c_lflag &= ~(tcflag_t)(ECHO | ISIG);
	tcsetattr(fd, TCSAFLUSH, &quiet);
	ssize_t got = write(fd, prompt, strlen(prompt));
	while (got > 0 && n < PASSPHRASE_MAX - 1) {
		got = read(fd, line + n, 1);
		if (got <= 0 || line[n] == '\n' || line[n] == INTERRUPT)
			break;
		n++;
	}
	bool interrupted = got > 0 && line[n] == INTERRUPT;
	line[n] = 0;
	tcsetattr(fd, TCSAFLUSH, &before);
	if (write(fd, "\n", 1) != 1 || got < 0)
		return file_why(why, "use", "/dev/tty", errno);
	return interrupted ? err_why(why, ERR_interrupted, "interrupted") : ERR_OK;
}

static enum err from_terminal(bool fresh, char **out, struct why *why)
{
	char line[PASSPHRASE_MAX], again[PASSPHRASE_MAX];
	int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return err_why(why, ERR_usage,
			"a passphrase is needed and there is no terminal to ask at: put it into a "
			"file that only you can read, or into the variable " VARIABLE);
	enum err e = ask(fd, "passphrase: ", line, why);
	if (!e && fresh)
		e = ask(fd, "once more: ", again, why);
	if (!e && fresh && strcmp(line, again) != 0)
		e = err_why(why, ERR_usage, "the two passphrases differ; try again");
	if (!e)
		*out = alloc_must_strdup(line);
	close(fd);
	explicit_bzero(line, sizeof line);
	explicit_bzero(again, sizeof again);
	return e;
}

enum err passphrase_get(const char *file, bool fresh, char **out, struct why *why)
{
	char *value = getenv(VARIABLE);
	*out = NULL;
	if (file)
		return from_file(file, out, why);
	if (!value || !*value)
		return from_terminal(fresh, out, why);
	from_environment(value, out);
	return ERR_OK;
}

void passphrase_free(char *p)
{
	if (p)
		explicit_bzero(p, strlen(p));
	free(p);
}
