#include "coordinator/hub_invite.h"
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "net/https_server.h"

static const char *const bridges[] = {"docker", "br-", "veth", "virbr", "cni", "flannel"};

static bool is_bridge(const char *name)
{
	for (size_t i = 0; i < sizeof bridges / sizeof *bridges; i++)
		if (!strncmp(name, bridges[i], strlen(bridges[i])))
			return true;
	return false;
}

/* An address of the family that others may reach; of IPv6 none that means one wire only. */
static bool outer(const struct ifaddrs *a, int family, char host[static JOINLINK_HOST])
{
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	if (!a->ifa_addr || a->ifa_addr->sa_family != family || !(a->ifa_flags & IFF_UP) ||
		a->ifa_flags & IFF_LOOPBACK || is_bridge(a->ifa_name))
		return false;
	if (family == AF_INET) {
		memcpy(&in, a->ifa_addr, sizeof in);
		return inet_ntop(AF_INET, &in.sin_addr, host, JOINLINK_HOST);
	}
	memcpy(&in6, a->ifa_addr, sizeof in6);
	return !IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr) &&
	       inet_ntop(AF_INET6, &in6.sin6_addr, host, JOINLINK_HOST);
}

/* IPv4 first: everybody who may join has that. */
static void own_address(char host[static JOINLINK_HOST])
{
	static const int families[] = {AF_INET, AF_INET6};
	struct ifaddrs *all = NULL;
	bool found = false;
	if (getifaddrs(&all))
		all = NULL;
	for (size_t i = 0; i < 2 && !found; i++)
		for (const struct ifaddrs *a = all; a && !found; a = a->ifa_next)
			found = outer(a, families[i], host);
	if (!found)
		snprintf(host, JOINLINK_HOST, "127.0.0.1");
	freeifaddrs(all);
}

void hub_invite_where(
	const struct hub *h, struct invites_wish *out, char host[static JOINLINK_HOST])
{
	static const char *const everywhere[] = {"*", "0.0.0.0", "::", "[::]"};
	const char *said = h->config.public_address ? h->config.public_address : h->config.address;
	bool any = false;
	for (size_t i = 0; i < sizeof everywhere / sizeof *everywhere; i++)
		any |= !strcmp(said, everywhere[i]);
	if (any) {
		own_address(host);
	} else {
		size_t n = strlen(said);
		bool brackets = said[0] == '[' && said[n - 1] == ']';
		snprintf(host, JOINLINK_HOST, "%.*s", (int)(brackets ? n - 2 : n), said + brackets);
	}
	out->host = host;
	out->port = https_server_port(h->https);
}

static bool still_good(struct hub *h, const struct invites_wish *wish)
{
	uint8_t *text = NULL;
	size_t n;
	struct joinlink l;
	struct invite i;
	struct store_invite row;
	struct why why;
	struct sign_public key = sign_public_of(h->run.keys.run);
	if (file_read(h->invite_path, 4096, &text, &n, &why))
		return false;
	text[strcspn((char *)text, "\r\n")] = 0;
	bool good = !joinlink_parse((const char *)text, &l, &why) && !strcmp(l.host, wish->host) &&
		    l.port == wish->port && hash_equal(&l.run, &h->run.spec->id) &&
		    !memcmp(l.key.b, key.b, sizeof key.b) &&
		    !invite_open(l.invite, &l.run, &key, clock_wall_s(), &i, &why) &&
		    !store_invite_find(h->run.store, i.id, &row, &why) && !row.revoked;
	free(text);
	return good;
}

/* For `invite`, which does not know how this process was started. */
static enum err remember_place(struct hub *h, const struct invites_wish *where, struct why *why)
{
	store_begin(h->run.store);
	store_put(h->run.store, "public_host", where->host, strlen(where->host));
	store_put_number(h->run.store, "public_port", where->port);
	return store_commit(h->run.store, why);
}

enum err hub_invite_file(struct hub *h, struct why *why)
{
	char host[JOINLINK_HOST], link[JOINLINK_MAX];
	struct invites_wish wish = {.uses = h->config.invite_uses};
	h->invite_path = h->config.invite_file ? alloc_must_strdup(h->config.invite_file)
					       : alloc_must_printf("%s/join.link", h->config.dir);
	if (h->config.invite_expires_ns)
		wish.expires_s = clock_wall_s() + h->config.invite_expires_ns / CLOCK_SECOND;
	hub_invite_where(h, &wish, host);
	enum err err = remember_place(h, &wish, why);
	if (err || still_good(h, &wish))
		return err;
	const struct invites in = run_invites(&h->run);
	err = invites_make(&in, &wish, link, why);
	if (err)
		return err;
	char *line = alloc_must_printf("%s\n", link);
	err = file_write(h->invite_path, line, strlen(line), 0600, why);
	free(line);
	return err;
}
