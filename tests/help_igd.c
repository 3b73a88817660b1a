#include "tests/help_igd.h"
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#define LOOK_MS 20
#define REQUEST_MAX 8192
#define SERVICE "urn:schemas-upnp-org:service:WANIPConnection:1"

static struct {
	pthread_t thread;
	bool on;
	int udp, tcp;
	uint16_t port;
	atomic_bool stop;
	atomic_uint mood;
	pthread_mutex_t lock; /* of seen */
	struct help_igd_seen seen;
} igd = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool help_igd_net(void)
{
	return unshare(CLONE_NEWNET) == 0 &&
	       system("ip link set lo up && ip link add out type veth peer name far && "
		      "ip link set far up && ip link set out up && "
		      "ip addr add " HELP_IGD_INNER "/24 dev out && "
		      "ip addr add " HELP_IGD_OUTER "/32 dev out && "
		      "ip route add 239.0.0.0/8 dev out") == 0;
}

bool help_igd_library(void)
{
	void *file = dlopen("libminiupnpc.so.17", RTLD_LAZY | RTLD_LOCAL);
	if (file)
		dlclose(file);
	return file;
}

/* ---- SSDP */

static void answer_search(void)
{
	char question[2048], text[3000], garbage[1400];
	struct sockaddr_in from;
	socklen_t len = sizeof from;
	ssize_t n =
		recvfrom(igd.udp, question, sizeof question - 1, 0, (struct sockaddr *)&from, &len);
	const unsigned mood = atomic_load(&igd.mood);
	if (n <= 0 || mood == HELP_IGD_silent)
		return;
	if (mood == HELP_IGD_garbage) {
		memset(garbage, 0xa5, sizeof garbage);
		(void)sendto(igd.udp, garbage, sizeof garbage, 0, (struct sockaddr *)&from, len);
		snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nST:\r\nLOCATION: %0*d\r\n\r\n",
			1300, 7);
		(void)sendto(igd.udp, text, strlen(text), 0, (struct sockaddr *)&from, len);
	}
	snprintf(text, sizeof text,
		"HTTP/1.1 200 OK\r\nCACHE-CONTROL: max-age=120\r\n"
		"ST: urn:schemas-upnp-org:device:InternetGatewayDevice:1\r\n"
		"USN: uuid:1::urn:schemas-upnp-org:device:InternetGatewayDevice:1\r\nEXT:\r\n"
		"SERVER: test\r\nLOCATION: http://" HELP_IGD_INNER ":%u/desc.xml\r\n\r\n",
		igd.port);
	(void)sendto(igd.udp, text, strlen(text), 0, (struct sockaddr *)&from, len);
}

/* ---- HTTP */

static bool put(int fd, const char *text, size_t n)
{
	for (size_t done = 0; done < n && !atomic_load(&igd.stop);) {
		struct pollfd f = {.fd = fd, .events = POLLOUT};
		if (poll(&f, 1, LOOK_MS) <= 0)
			continue;
		ssize_t went = send(fd, text + done, n - done, MSG_NOSIGNAL);
		if (went <= 0)
			return false;
		done += (size_t)went;
	}
	return !atomic_load(&igd.stop);
}

static void reply(int fd, const char *status, const char *body)
{
	char head[200];
	snprintf(head, sizeof head,
		"HTTP/1.1 %s\r\nContent-Type: text/xml\r\nContent-Length: %zu\r\n"
		"Connection: close\r\n\r\n",
		status, strlen(body));
	(void)(put(fd, head, strlen(head)) && put(fd, body, strlen(body)));
}

static void describe(int fd)
{
	static char body[32768], name[6000];
	static const char head[] = "HTTP/1.1 200 OK\r\n\r\n<root>";
	const unsigned mood = atomic_load(&igd.mood);
	const bool slow = mood == HELP_IGD_drips;
	if (slow || mood == HELP_IGD_endless) {
		memset(body, '<', sizeof body);
		for (bool on = put(fd, head, strlen(head)); on;) {
			on = put(fd, body, slow ? 1 : sizeof body);
			if (slow)
				poll(NULL, 0, LOOK_MS); /* how fast it drips */
		}
		return;
	}
	if (mood == HELP_IGD_garbage) {
		for (size_t i = 0; i < sizeof body - 1; i++)
			body[i] = (char)("<>/\"& \1\377abc"[i * 7 % 11]);
		body[sizeof body - 1] = 0;
		reply(fd, "200 OK", body);
		return;
	}
	memset(name, 'n', sizeof name - 1);
	const char *type =
		mood == HELP_IGD_no_router ? "urn:schemas-upnp-org:service:Printer:1" : SERVICE;
	snprintf(body, sizeof body,
		"<?xml version=\"1.0\"?><root xmlns=\"urn:schemas-upnp-org:device-1-0\">"
		"<%s/><device><deviceType>urn:schemas-upnp-org:device:InternetGatewayDevice:1"
		"</deviceType><friendlyName>%s</friendlyName><serviceList><service>"
		"<serviceType>%s</serviceType><serviceId>%s</serviceId>"
		"<controlURL>/control%s</controlURL><eventSubURL>/event</eventSubURL>"
		"<SCPDURL>/scpd.xml</SCPDURL></service></serviceList></device></root>",
		mood == HELP_IGD_long_names ? name : "x",
		mood == HELP_IGD_long_names ? name : "test", type,
		mood == HELP_IGD_long_names ? name : "1", mood == HELP_IGD_long_names ? name : "");
	reply(fd, "200 OK", body);
}

static void fault(int fd, int code)
{
	char body[600];
	snprintf(body, sizeof body,
		"<?xml version=\"1.0\"?><s:Envelope><s:Body><s:Fault><detail><UPnPError>"
		"<errorCode>%d</errorCode><errorDescription>test</errorDescription>"
		"</UPnPError></detail></s:Fault></s:Body></s:Envelope>",
		code);
	reply(fd, "500 Internal Server Error", body);
}

static void done(int fd, const char *action, const char *inside)
{
	char body[800];
	snprintf(body, sizeof body,
		"<?xml version=\"1.0\"?><s:Envelope><s:Body><u:%sResponse xmlns:u=\"" SERVICE
		"\">%s</u:%sResponse></s:Body></s:Envelope>",
		action, inside, action);
	reply(fd, "200 OK", body);
}

static unsigned long number(const char *request, const char *element)
{
	const char *at = strstr(request, element);
	return at ? strtoul(at + strlen(element), NULL, 10) : 0;
}

static int add(const char *request)
{
	static unsigned long asked;
	const unsigned mood = atomic_load(&igd.mood);
	const unsigned long outer = number(request, "<NewExternalPort>"),
			    lease = number(request, "<NewLeaseDuration>");
	if (mood == HELP_IGD_forbids)
		return 606;
	if (mood == HELP_IGD_full)
		return 718;
	if (mood == HELP_IGD_taken && outer != asked + 1) {
		asked = outer;
		return 718;
	}
	if (mood == HELP_IGD_for_ever && lease)
		return 725;
	if (!strstr(request, "<NewInternalClient>" HELP_IGD_INNER "<") ||
		!strstr(request, "<NewProtocol>TCP<"))
		return 402;
	pthread_mutex_lock(&igd.lock);
	igd.seen.adds++;
	igd.seen.open = true;
	igd.seen.inner = (uint16_t)number(request, "<NewInternalPort>");
	igd.seen.outer = (uint16_t)outer;
	igd.seen.lease_s = lease;
	pthread_mutex_unlock(&igd.lock);
	return 0;
}

static int take_away(const char *request)
{
	pthread_mutex_lock(&igd.lock);
	const bool there = igd.seen.open && number(request, "<NewExternalPort>") == igd.seen.outer;
	igd.seen.removes += there;
	igd.seen.open &= !there;
	pthread_mutex_unlock(&igd.lock);
	return there ? 0 : 714;
}

static void serve(int fd, const char *request)
{
	const unsigned mood = atomic_load(&igd.mood);
	int code;
	if (!strncmp(request, "GET ", 4)) {
		describe(fd);
	} else if (strstr(request, "#GetExternalIPAddress")) {
		const char *outer = mood == HELP_IGD_double_nat ? "100.64.9.9"
				    : mood == HELP_IGD_strange  ? "999.1\33[31m"
								: HELP_IGD_OUTER;
		char inside[200];
		snprintf(inside, sizeof inside, "<NewExternalIPAddress>%s</NewExternalIPAddress>",
			outer);
		done(fd, "GetExternalIPAddress", inside);
	} else if (strstr(request, "#AddPortMapping")) {
		code = add(request);
		code ? fault(fd, code) : done(fd, "AddPortMapping", "");
	} else if (strstr(request, "#DeletePortMapping")) {
		code = take_away(request);
		code ? fault(fd, code) : done(fd, "DeletePortMapping", "");
	} else {
		fault(fd, 401);
	}
}

static void take_request(void)
{
	char text[REQUEST_MAX] = "";
	size_t n = 0;
	int fd = accept4(igd.tcp, NULL, NULL, SOCK_CLOEXEC);
	while (fd >= 0 && n < sizeof text - 1 && !atomic_load(&igd.stop) &&
		!strstr(text, *text == 'P' ? ":Envelope>\r\n" : "\r\n\r\n")) {
		struct pollfd f = {.fd = fd, .events = POLLIN};
		if (poll(&f, 1, LOOK_MS) <= 0)
			continue;
		ssize_t got = recv(fd, text + n, sizeof text - 1 - n, 0);
		if (got <= 0)
			break;
		n += (size_t)got;
		text[n] = 0;
	}
	if (n)
		serve(fd, text);
	if (fd >= 0)
		close(fd);
}

static void *run(void *arg)
{
	(void)arg;
	while (!atomic_load(&igd.stop)) {
		struct pollfd f[] = {
			{.fd = igd.udp, .events = POLLIN}, {.fd = igd.tcp, .events = POLLIN}};
		(void)poll(f, 2, LOOK_MS);
		if (f[0].revents)
			answer_search();
		if (f[1].revents)
			take_request();
	}
	return NULL;
}

/* ---- the test's side */

void help_igd_start(void)
{
	const int yes = 1;
	struct sockaddr_in ssdp = {.sin_family = AF_INET, .sin_port = htons(1900)},
			   web = {.sin_family = AF_INET};
	struct ip_mreq group = {0};
	socklen_t len = sizeof web;
	inet_pton(AF_INET, "239.255.255.250", &group.imr_multiaddr);
	inet_pton(AF_INET, HELP_IGD_INNER, &group.imr_interface);
	web.sin_addr = group.imr_interface;
	igd.udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	igd.tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(igd.udp, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	if (bind(igd.udp, (struct sockaddr *)&ssdp, sizeof ssdp) ||
		setsockopt(igd.udp, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group) ||
		bind(igd.tcp, (struct sockaddr *)&web, sizeof web) || listen(igd.tcp, 16) ||
		getsockname(igd.tcp, (struct sockaddr *)&web, &len))
		fail_msg("no router can be played: %s", strerror(errno));
	igd.port = ntohs(web.sin_port);
	igd.seen = (struct help_igd_seen){0};
	atomic_store(&igd.stop, false);
	atomic_store(&igd.mood, HELP_IGD_good);
	assert_int_equal(pthread_create(&igd.thread, NULL, run, NULL), 0);
	igd.on = true;
}

void help_igd_stop(void)
{
	if (!igd.on)
		return;
	atomic_store(&igd.stop, true);
	pthread_join(igd.thread, NULL);
	close(igd.udp);
	close(igd.tcp);
	igd.on = false;
}

void help_igd_mood(enum help_igd_mood mood)
{
	atomic_store(&igd.mood, mood);
}

struct help_igd_seen help_igd_seen(void)
{
	pthread_mutex_lock(&igd.lock);
	const struct help_igd_seen seen = igd.seen;
	pthread_mutex_unlock(&igd.lock);
	return seen;
}
