#include "net/address.h"
#include <stddef.h>
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
