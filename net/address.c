#include "net/address.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char name_signs[] = "abcdefghijklmnopqrstuvwxyz"
				 "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-";
static const char v6_signs[] = "0123456789abcdefABCDEF:.";

static bool port_ok(const char *text)
{
	size_t n = strspn(text, "0123456789");
	if (!n || n > 5 || text[n])
		return false;
	unsigned long port = strtoul(text, NULL, 10);
	return port >= 1 && port <= 65535;
}

bool address_ok(const char *text)
{
	const bool v6 = text[0] == '[';
	if (strnlen(text, ADDRESS_MAX) == ADDRESS_MAX)
		return false;
	size_t n = strspn(text + v6, v6 ? v6_signs : name_signs);
	const char *end = text + v6 + n;
	if (!n || (v6 && *end++ != ']'))
		return false;
	return *end == ':' && port_ok(end + 1);
}

static const char *nowhere4(const uint8_t b[static 4])
{
	if (!b[0])
		return "0.0.0.0/8 names no machine";
	if (b[0] >= 240)
		return "it is a broadcast or a reserved address";
	if (b[0] >= 224)
		return "it is a multicast address";
	return b[0] == 169 && b[1] == 254 ? "it holds on one link only" : NULL;
}

static const char *nowhere6(const uint8_t b[static 16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}, none[16];
	if (!memcmp(b, none, sizeof none))
		return "[::] names no machine";
	if (b[0] == 0xff)
		return "it is a multicast address";
	if (b[0] == 0xfe && (b[1] & 0xc0) == 0x80)
		return "it holds on one link only";
	return memcmp(b, mapped, sizeof mapped) ? NULL : nowhere4(b + 12);
}

const char *address_nowhere(const char *text)
{
	char host[ADDRESS_MAX];
	uint8_t b[16];
	const bool v6 = text[0] == '[';
	snprintf(host, sizeof host, "%s", text + v6);
	host[strcspn(host, v6 ? "]" : ":")] = 0;
	if (v6)
		return inet_pton(AF_INET6, host, b) == 1 ? nowhere6(b) : "it is no IPv6 address";
	return inet_pton(AF_INET, host, b) == 1 ? nowhere4(b) : NULL;
}

void address_join(const char *host, uint16_t port, char *out, size_t room)
{
	const bool bare = host[0] != '[' && strchr(host, ':');
	snprintf(out, room, bare ? "[%s]:%u" : "%s:%u", host, port);
}
