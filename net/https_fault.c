#include "net/https_fault.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "net/address.h"

#define BODY_MOST 8192

static bool is_loopback(const struct addrinfo *a)
{
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	if (a->ai_family == AF_INET) {
		memcpy(&in, a->ai_addr, sizeof in);
		return ntohl(in.sin_addr.s_addr) >> 24 == 127;
	}
	if (a->ai_family != AF_INET6)
		return false;
	memcpy(&in6, a->ai_addr, sizeof in6);
	return IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr);
}

/* A name, other than localhost, that this machine takes for itself: a line in /etc/hosts that the
 * installer of many systems writes. */
static bool loops_back(const char *host)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
	uint8_t number[16];
	if (strcmp(host, "localhost") == 0 || inet_pton(AF_INET, host, number) == 1 ||
		inet_pton(AF_INET6, host, number) == 1)
		return false;
	if (getaddrinfo(host, NULL, &hints, &list) != 0)
		return false;
	bool all = true;
	for (const struct addrinfo *a = list; a; a = a->ai_next)
		all = all && is_loopback(a);
	freeaddrinfo(list);
	return all;
}

static enum err no_connection(const struct https_fault *f, struct why *why)
{
	long e = 0;
	curl_easy_getinfo(f->curl, CURLINFO_OS_ERRNO, &e);
	if (loops_back(f->host))
		return err_why(why, ERR_network,
			"nothing listens at %s port %u, and on this machine the name %s means the "
			"machine itself (127.0.0.1): look into /etc/hosts, or use the "
			"coordinator's address instead of its name",
			f->host, f->port, f->host);
	if (e == ECONNREFUSED)
		return err_why(why, ERR_network,
			"nothing listens at %s port %u (connection refused): is the coordinator "
			"running there, and is this its port?",
			f->host, f->port);
	return err_why(why, ERR_network,
		"no connection to %s port %u: %s; check the network, the address and firewalls",
		f->host, f->port, e ? strerror((int)e) : f->detail);
}

static enum err timed_out(const struct https_fault *f, struct why *why)
{
	const char *reached = NULL;
	long asked = 0; // bytes of the request
	curl_easy_getinfo(f->curl, CURLINFO_PRIMARY_IP, &reached);
	curl_easy_getinfo(f->curl, CURLINFO_REQUEST_SIZE, &asked);
	if (!reached || !*reached)
		return err_why(why, ERR_timeout,
			"%s port %u does not answer: the machine is off, the address is wrong, or "
			"a firewall drops the connection",
			f->host, f->port);
	if (asked == 0)
		return err_why(why, ERR_timeout,
			"something listens at %s port %u but does not speak TLS: is it another "
			"program's port?",
			f->host, f->port);
	return err_why(why, ERR_timeout,
		"%s port %u stopped sending in the middle of a reply: the network is too slow or "
		"broke off",
		f->host, f->port);
}

static enum err no_tls(const struct https_fault *f, struct why *why)
{
	if (strstr(f->detail, "access denied"))
		return err_why(why, ERR_busy,
			"%s port %u takes no more connections from this address; try again later",
			f->host, f->port);
	if (strstr(f->detail, "wrong version number") || strstr(f->detail, "packet length") ||
		strstr(f->detail, "http request"))
		return err_why(why, ERR_network,
			"what answers at %s port %u does not speak TLS: it is a plain HTTP port or "
			"another program's",
			f->host, f->port);
	if (strstr(f->detail, "protocol version") || strstr(f->detail, "unsupported protocol"))
		return err_why(why, ERR_network,
			"what answers at %s port %u speaks an older TLS than 1.3: it is no "
			"coordinator, or a proxy that is too old",
			f->host, f->port);
	return err_why(why, ERR_network,
		"no TLS connection to %s port %u (%s): is it the coordinator's port?", f->host,
		f->port, f->detail);
}

/* What failed at the proxy is said of that. */
static bool at_proxy(const struct https_fault *f, struct why *why)
{
	char to[PROXY_SHOWN];
	address_join(f->host, f->port, to, sizeof to);
	const struct proxy_fault p = {f->proxy, f->curl, f->code, f->detail, to};
	return f->proxy && proxy_explain(&p, why);
}

enum err https_fault_explain(const struct https_fault *f, struct why *why)
{
	if (at_proxy(f, why))
		return why->code;
	switch (f->code) {
	case CURLE_COULDNT_RESOLVE_HOST:
		return err_why(why, ERR_network,
			"the name %s is not known: check its spelling and that this machine can "
			"resolve names",
			f->host);
	case CURLE_COULDNT_RESOLVE_PROXY:
	case CURLE_PROXY:
		return err_why(why, ERR_network,
			"the proxy that https_proxy names cannot be used (%s): correct the "
			"variable or unset it",
			f->detail);
	case CURLE_COULDNT_CONNECT: return no_connection(f, why);
	case CURLE_OPERATION_TIMEDOUT: return timed_out(f, why);
	case CURLE_SSL_CONNECT_ERROR: return no_tls(f, why);
	case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
		return err_why(why, ERR_signature,
			"%s port %u shows another key than the one that the run's statement names: "
			"the coordinator has got a new key (start again), or somebody stands in "
			"between",
			f->host, f->port);
	case CURLE_PEER_FAILED_VERIFICATION:
		return err_why(why, ERR_signature,
			"the certificate of %s port %u is not trusted (%s): somebody may stand in "
			"between",
			f->host, f->port, f->detail);
	case CURLE_OUT_OF_MEMORY: return err_why(why, ERR_nomem, "out of memory");
	default:
		return err_why(why, ERR_network, "the connection to %s port %u failed: %s", f->host,
			f->port, f->detail[0] ? f->detail : curl_easy_strerror(f->code));
	}
}

enum err https_fault_status(
	const struct https_fault *f, long status, const void *body, size_t n, struct why *why)
{
	json_t *doc = NULL;
	enum err code = ERR_network;
	if (json_parse(body, n, BODY_MOST, &doc, NULL) == ERR_OK) {
		const char *text = json_string_value(json_object_get(doc, "text"));
		json_int_t number = json_integer_value(json_object_get(doc, "code"));
		bool known = number > 0 && number < 1000 &&
			     strcmp(err_name((enum err)number), "unknown") != 0;
		bool told = text && text[strspn(text, "\n")]; /* ends of lines say nothing */
		if (told)
			code = err_why(why, known ? (enum err)number : ERR_refused, "%s", text);
		json_decref(doc);
		if (told)
			return code;
	}
	if (status == 429 || status == 503)
		code = ERR_busy;
	return err_why(why, code,
		"%s port %u answered with HTTP status %ld, as no coordinator does: is it another "
		"program's port, or is a proxy in between?",
		f->host, f->port, status);
}
