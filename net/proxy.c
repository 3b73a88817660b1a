#include "net/proxy.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "net/address.h"

#define FORMS "socks5h://HOST:PORT or http://HOST:PORT"
#define SCHEME_SHOWN 8 /* characters; what is longer may be something else */

/* ---- what the user wrote */

static int hex(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = c ? strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;
	return at ? (int)(at - digits) : -1;
}

/* %40 is @, as in any address. */
static bool decode(const char *from, size_t n, char to[static PROXY_WORD])
{
	size_t len = 0;
	for (size_t i = 0; i < n; i++) {
		int c = (unsigned char)from[i];
		if (c == '%') {
			if (n - i < 3 || hex(from[i + 1]) < 0 || hex(from[i + 2]) < 0)
				return false;
			c = hex(from[i + 1]) * 16 + hex(from[i + 2]);
			i += 2;
		}
		if (!c || len == PROXY_WORD - 1)
			return false;
		to[len++] = (char)c;
	}
	to[len] = 0;
	return true;
}

static enum err parse_user(const char *text, size_t n, struct proxy *out, struct why *why)
{
	const char *colon = memchr(text, ':', n);
	const size_t user = colon ? (size_t)(colon - text) : n;
	if (user && decode(text, user, out->user) &&
		(!colon || decode(colon + 1, n - user - 1, out->password)))
		return ERR_OK;
	return err_why(why, ERR_usage,
		"user and password of the proxy must be USER:PASSWORD@ with up to 255 characters "
		"each, and %%40 for an @, %%3A for a : and %%25 for a %% in them");
}

static const char *after_scheme(const char *text, bool *http)
{
	static const char *const schemes[] = {"socks5h://", "http://"};
	for (size_t i = 0; i < 2; i++) {
		*http = i == 1;
		if (!strncasecmp(text, schemes[i], strlen(schemes[i])))
			return text + strlen(schemes[i]);
	}
	return NULL;
}

enum err proxy_parse(const char *text, struct proxy *out, struct why *why)
{
	*out = (struct proxy){0};
	const char *at = strrchr(text, '@'), *rest = after_scheme(text, &out->http);
	const char *shown = at ? at + 1 : rest ? rest : text;
	const size_t scheme = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789");
	if (!rest && scheme <= SCHEME_SHOWN && !strncmp(text + scheme, "://", 3))
		return err_why(why, ERR_usage,
			"a proxy is " FORMS ", not %.*s; a SOCKS 5 proxy is socks5h, whatever else "
			"it is called",
			(int)scheme, text);
	char where[ADDRESS_MAX];
	size_t n = strlen(shown);
	n -= n && shown[n - 1] == '/';
	if (rest && n < sizeof where) {
		memcpy(where, shown, n);
		where[n] = 0;
	}
	if (!rest || n >= sizeof where || !address_ok(where))
		return err_why(why, ERR_usage, "a proxy is " FORMS ", not \"%.80s\"", shown);
	snprintf(out->shown, sizeof out->shown, "%s://%s", out->http ? "http" : "socks5h", where);
	return at ? parse_user(rest, (size_t)(at - rest), out, why) : ERR_OK;
}

void proxy_apply(const struct proxy *p, CURL *curl)
{
	curl_easy_setopt(curl, CURLOPT_PROXY, p->shown);
	curl_easy_setopt(curl, CURLOPT_NOPROXY, "");
	curl_easy_setopt(curl, CURLOPT_HTTPPROXYTUNNEL, 1L);
	curl_easy_setopt(curl, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	if (!p->user[0])
		return;
	curl_easy_setopt(curl, CURLOPT_PROXYAUTH, CURLAUTH_ANY);
	curl_easy_setopt(curl, CURLOPT_PROXYUSERNAME, p->user);
	curl_easy_setopt(curl, CURLOPT_PROXYPASSWORD, p->password);
}

/* ---- what went wrong */

static enum err wants_password(const struct proxy_fault *f, struct why *why)
{
	if (f->proxy->user[0])
		return err_why(why, ERR_network,
			"the proxy %s does not take the user and the password that it was given: "
			"correct them",
			f->proxy->shown);
	return err_why(why, ERR_network,
		"the proxy %s wants a user and a password: put %s://USER:PASSWORD@HOST:PORT into "
		"the variable SHOAL_PROXY",
		f->proxy->shown, f->proxy->http ? "http" : "socks5h");
}

static enum err not_allowed(const struct proxy_fault *f, struct why *why)
{
	return err_why(why, ERR_network,
		"the proxy %s does not allow connections to %s: whoever runs it must allow that "
		"port, or another proxy is needed",
		f->proxy->shown, f->to);
}

static enum err not_reached(const struct proxy_fault *f, const char *how, struct why *why)
{
	return err_why(why, ERR_network,
		"the proxy %s does not reach %s (%s): is the address right, and does anything "
		"listen there?",
		f->proxy->shown, f->to, how);
}

static enum err other_kind(const struct proxy_fault *f, struct why *why)
{
	return err_why(why, ERR_network,
		"what answers at %s does not speak %s: it may be %s://, or another program's port",
		f->proxy->shown, f->proxy->http ? "HTTP" : "SOCKS 5",
		f->proxy->http ? "socks5h" : "http");
}

static enum err no_connection(const struct proxy_fault *f, struct why *why)
{
	long e = 0;
	curl_easy_getinfo(f->curl, CURLINFO_OS_ERRNO, &e);
	if (e == ECONNREFUSED)
		return err_why(why, ERR_network,
			"nothing listens at the proxy %s: is it running, and is this its port?",
			f->proxy->shown);
	return err_why(why, ERR_network,
		"no connection to the proxy %s: %s; check its address and the network",
		f->proxy->shown, e ? strerror((int)e) : f->detail);
}

static enum err socks(const struct proxy_fault *f, struct why *why)
{
	long said = CURLPX_OK;
	curl_easy_getinfo(f->curl, CURLINFO_PROXY_ERROR, &said);
	switch ((CURLproxycode)said) {
	case CURLPX_NO_AUTH:
	case CURLPX_USER_REJECTED: return wants_password(f, why);
	case CURLPX_REPLY_NOT_ALLOWED: return not_allowed(f, why);
	case CURLPX_REPLY_CONNECTION_REFUSED: return not_reached(f, "connection refused", why);
	case CURLPX_RESOLVE_HOST:
	case CURLPX_REPLY_HOST_UNREACHABLE:
		return not_reached(f, "no such host, or no way to it", why);
	case CURLPX_REPLY_NETWORK_UNREACHABLE:
	case CURLPX_REPLY_TTL_EXPIRED:
	case CURLPX_REPLY_GENERAL_SERVER_FAILURE: return not_reached(f, "as it says", why);
	case CURLPX_BAD_VERSION:
	case CURLPX_CLOSED:
	case CURLPX_RECV_CONNECT:
	case CURLPX_UNKNOWN_FAIL: return other_kind(f, why);
	default:
		return err_why(why, ERR_network, "the proxy %s cannot be used: %s", f->proxy->shown,
			f->detail);
	}
}

/* What it answered to CONNECT; 0: nothing. */
static enum err connect_status(const struct proxy_fault *f, long status, struct why *why)
{
	switch (status) {
	case 407: return wants_password(f, why);
	case 403:
	case 405: return not_allowed(f, why);
	case 502:
	case 503:
	case 504: return not_reached(f, "as it says", why);
	default:
		return err_why(why, ERR_network,
			"the proxy %s answered with status %ld when it was asked for %s: is it one "
			"for the web alone, or another program's port?",
			f->proxy->shown, status, f->to);
	}
}

static enum err timed_out(const struct proxy_fault *f, struct why *why)
{
	const char *reached = NULL;
	curl_easy_getinfo(f->curl, CURLINFO_PRIMARY_IP, &reached);
	if (!reached || !*reached)
		return err_why(why, ERR_timeout,
			"the proxy %s does not answer: it is off, the address is wrong, or a "
			"firewall drops the connection",
			f->proxy->shown);
	return err_why(why, ERR_timeout,
		"the proxy %s does not say whether it reaches %s: that machine is off, or the "
		"proxy is busy",
		f->proxy->shown, f->to);
}

bool proxy_explain(const struct proxy_fault *f, struct why *why)
{
	long status = 0;
	curl_off_t beyond = 0; /* TLS stood: what broke is behind it */
	curl_easy_getinfo(f->curl, CURLINFO_HTTP_CONNECTCODE, &status);
	curl_easy_getinfo(f->curl, CURLINFO_APPCONNECT_TIME_T, &beyond);
	switch (f->code) {
	case CURLE_COULDNT_RESOLVE_HOST: /* no other name is resolved here */
	case CURLE_COULDNT_RESOLVE_PROXY:
		return err_why(why, ERR_network,
			"the name of the proxy %s is not known: check its spelling and that this "
			"machine can resolve names",
			f->proxy->shown);
	case CURLE_COULDNT_CONNECT: return no_connection(f, why);
	case CURLE_PROXY: return socks(f, why);
	case CURLE_OPERATION_TIMEDOUT: return !beyond && status / 100 != 2 && timed_out(f, why);
	case CURLE_GOT_NOTHING:
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_WEIRD_SERVER_REPLY:
	case CURLE_RECV_ERROR:
	case CURLE_SEND_ERROR:
		if (!f->proxy->http || beyond || status / 100 == 2)
			return false;
		return status ? connect_status(f, status, why) : other_kind(f, why);
	default: return false;
	}
}
