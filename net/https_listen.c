#include "net/https_listen.h"
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 128

struct place {
	char host[256]; // "*" for every address
	char port[8];
};

static enum err split(const char *address, struct place *p, struct why *why)
{
	const char *colon = strrchr(address, ':');
	const char *port = colon ? colon + 1 : "";
	size_t n = strlen(port), host = colon ? (size_t)(colon - address) : 0;
	bool bracket = host >= 2 && address[0] == '[' && address[host - 1] == ']';
	if (bracket) {
		address++;
		host -= 2;
	}
	if (n == 0 || n > 5 || strspn(port, "0123456789") != n || strtoul(port, NULL, 10) > 65535 ||
		host == 0 || host >= sizeof p->host ||
		(!bracket && memchr(address, ':', host) != NULL))
		return err_why(why, ERR_syntax,
			"cannot listen at \"%s\": it must be HOST:PORT, *:PORT or [IPv6]:PORT with "
			"a port from 0 to 65535",
			address);
	memcpy(p->host, address, host);
	p->host[host] = 0;
	memcpy(p->port, port, n + 1);
	return ERR_OK;
}

static enum err explain(const struct place *p, int e, struct why *why)
{
	switch (e) {
	case EADDRINUSE:
		return err_why(why, ERR_busy,
			"port %s is in use by another program; stop that or choose another port",
			p->port);
	case EACCES:
		return err_why(why, ERR_permission,
			"port %s is reserved for root; choose one from 1024 to 65535", p->port);
	case EADDRNOTAVAIL:
		return err_why(why, ERR_network,
			"%s is no address of this machine; use * or one that `ip address` shows",
			p->host);
	default:
		return err_why(why, ERR_network, "cannot listen at %s port %s: %s", p->host,
			p->port, strerror(e));
	}
}

/* A bound socket, or -1 with errno. */
static int bound(const struct addrinfo *a)
{
	int on = 1, off = 0;
	int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	/* Inherited by every connection: a reply of two records would wait 40 ms for a delayed
	 * acknowledgement between them. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	if (a->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
	if (bind(fd, a->ai_addr, a->ai_addrlen) == 0)
		return fd;
	int e = errno;
	close(fd);
	errno = e;
	return -1;
}

/* The first address that can be bound; IPv6 before IPv4, since it takes both for "*". */
static enum err open_socket(const struct place *p, int *fd, struct why *why)
{
	static const int families[] = {AF_INET6, AF_INET};
	bool any = strcmp(p->host, "*") == 0;
	int e = 0, gai = 0;
	for (size_t i = 0; i < 2; i++) {
		struct addrinfo hints = {.ai_family = families[i], .ai_socktype = SOCK_STREAM};
		struct addrinfo *list = NULL;
		hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
		int failed = getaddrinfo(any ? NULL : p->host, p->port, &hints, &list);
		*fd = failed ? -1 : bound(list);
		if (failed)
			gai = failed;
		else if (*fd < 0)
			e = errno;
		if (list)
			freeaddrinfo(list);
		if (*fd >= 0)
			return ERR_OK;
		if (e && e != EAFNOSUPPORT && e != EADDRNOTAVAIL)
			break;
	}
	if (e)
		return explain(p, e, why);
	return err_why(why, ERR_network,
		"cannot listen at \"%s\": %s; use *, an address of this machine, or a name of it",
		p->host, gai_strerror(gai));
}

static uint16_t port_of(int fd)
{
	struct sockaddr_storage a;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	socklen_t len = sizeof a;
	if (getsockname(fd, (struct sockaddr *)&a, &len) != 0)
		return 0;
	memcpy(&in, &a, sizeof in);
	memcpy(&in6, &a, sizeof in6);
	return ntohs(a.ss_family == AF_INET ? in.sin_port : in6.sin6_port);
}

enum err https_listen_open(struct event_base *base, const char *address,
	struct evconnlistener **out, uint16_t *port, struct why *why)
{
	struct place p;
	int fd;
	*out = NULL;
	enum err e = split(address, &p, why);
	if (!e)
		e = open_socket(&p, &fd, why);
	if (e)
		return e;
	*out = evconnlistener_new(
		base, NULL, NULL, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, BACKLOG, fd);
	if (!*out) {
		e = explain(&p, errno, why);
		close(fd);
		return e;
	}
	*port = port_of(fd);
	return ERR_OK;
}
