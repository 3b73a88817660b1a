/* Inside the HTTPS client: what a failed transfer means, in a sentence that names cause and cure.
 */
#ifndef NET_HTTPS_FAULT_H
#define NET_HTTPS_FAULT_H
#include <curl/curl.h>
#include <stdint.h>
#include "base/err.h"
#include "net/proxy.h"

struct https_fault {
	CURL *curl;         /* after the failed perform */
	CURLcode code;      /* what it returned */
	const char *detail; /* curl's own words, may be empty */
	const char *host;
	uint16_t port;
	const struct proxy *proxy; /* NULL: none was named */
};

/* Not for CURLE_WRITE_ERROR and CURLE_ABORTED_BY_CALLBACK, whose reasons the caller knows. */
enum err https_fault_explain(const struct https_fault *f, struct why *why);
/* A reply of status 300 or more: the error that the server wrote in JSON, else the status. */
enum err https_fault_status(
	const struct https_fault *f, long status, const void *body, size_t n, struct why *why);

#endif
