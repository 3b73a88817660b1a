/* What the HTTPS client says of everything that is no coordinator. */
#include "tests/help_https.h"
#include <errno.h>
#include <netdb.h>
#include "net/https_client.h"

static void says(const struct why *why, enum err code, const char *text)
{
	if (why->code != code || !strstr(why->text, text))
		fail_msg("%s is not in: %d %s", text, (int)why->code, why->text);
}

static enum err try_port(const char *host, uint16_t to, struct why *why)
{
	struct joinlink l = {.port = to};
	struct https_client_config config;
	struct https_client *c;
	struct statement s;
	snprintf(l.host, sizeof l.host, "%s", host);
	https_client_config_init(&config, &l);
	config.connect_ns = 700 * CLOCK_MS;
	assert_int_equal(https_client_new(&config, &c, why), ERR_OK);
	enum err e = https_client_contact(c, &l, 2000000000u, &s, why);
	https_client_free(c);
	return e;
}

static int listener(uint16_t *at, int backlog)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	socklen_t n = sizeof a;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
	if (backlog > 0)
		assert_int_equal(listen(fd, backlog), 0);
	*at = ntohs(a.sin_port);
	return fd;
}

static int connect_later(uint16_t to)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(to)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (connect(fd, (struct sockaddr *)&a, sizeof a) != 0)
		assert_int_equal(errno, EINPROGRESS);
	return fd;
}

static void *plain_http(void *arg)
{
	static const char reply[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
	char request[100];
	int fd = accept(*(int *)arg, NULL, NULL);
	if (read(fd, request, sizeof request) > 0 &&
		write(fd, reply, sizeof reply - 1) == sizeof reply - 1)
		shutdown(fd, SHUT_WR);
	while (read(fd, request, sizeof request) > 0)
		;
	close(fd);
	return NULL;
}

static void test_no_coordinator_there(void **state)
{
	struct why why = {0};
	uint16_t at;
	pthread_t thread;
	(void)state;
	int fd = listener(&at, 0); // bound, so that nobody else takes it, but not listening
	assert_int_equal(try_port("127.0.0.1", at, &why), ERR_network);
	says(&why, ERR_network, "connection refused");
	close(fd);

	fd = listener(&at, 1); // a full queue: the kernel drops what comes, as a firewall does
	int queued[4];
	for (size_t i = 0; i < 4; i++)
		queued[i] = connect_later(at);
	assert_int_equal(try_port("127.0.0.1", at, &why), ERR_timeout);
	says(&why, ERR_timeout, "does not answer");
	for (size_t i = 0; i < 4; i++)
		close(queued[i]);
	close(fd);

	fd = listener(&at, 5); // the kernel connects, nobody answers
	assert_int_equal(try_port("127.0.0.1", at, &why), ERR_timeout);
	says(&why, ERR_timeout, "does not speak TLS");
	close(fd);

	fd = listener(&at, 5);
	assert_int_equal(pthread_create(&thread, NULL, plain_http, &fd), 0);
	assert_int_equal(try_port("127.0.0.1", at, &why), ERR_network);
	says(&why, ERR_network, "plain HTTP port");
	pthread_join(thread, NULL);
	close(fd);

	assert_int_equal(try_port("no.such.name.invalid", 443, &why), ERR_network);
	says(&why, ERR_network, "no.such.name.invalid is not known");
}

static bool loops_back(const char *name)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_INET}, *list = NULL;
	struct sockaddr_in in = {0};
	if (strcmp(name, "localhost") == 0 || getaddrinfo(name, NULL, &hints, &list) != 0)
		return false;
	memcpy(&in, list->ai_addr, sizeof in);
	freeaddrinfo(list);
	return ntohl(in.sin_addr.s_addr) >> 24 == 127;
}

static void test_name_that_loops_back(void **state)
{
	char own[256] = "";
	struct why why = {0};
	uint16_t at;
	(void)state;
	// Installers write such a line into /etc/hosts for the machine's own name.
	gethostname(own, sizeof own - 1);
	const char *name = loops_back(own) ? own : "ip6-localhost";
	if (!loops_back(name))
		skip();
	int fd = listener(&at, 0);
	assert_int_equal(try_port(name, at, &why), ERR_network);
	says(&why, ERR_network, "/etc/hosts");
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_coordinator_there),
		cmocka_unit_test(test_name_that_loops_back),
	};
	unsetenv("https_proxy");
	unsetenv("HTTPS_PROXY");
	unsetenv("all_proxy");
	unsetenv("ALL_PROXY");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
