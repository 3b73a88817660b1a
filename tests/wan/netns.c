#include "tests/wan/netns.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define DEVICE "wan0"
#define MTU 1500
#define QUEUE_PACKETS 1000

/* Opens something in the namespace where it is called: a descriptor, or -1 and errno. */
typedef int opens(const void *what);

static enum err inside(const char *prefix, const char *node, opens *open_it, const void *what,
	int *fd, struct why *why)
{
	char path[128];
	snprintf(path, sizeof path, "/run/netns/%s-%s", prefix, node);
	int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	int there = open(path, O_RDONLY | O_CLOEXEC);
	bool entered = home >= 0 && there >= 0 && setns(there, CLONE_NEWNET) == 0;
	*fd = entered ? open_it(what) : -1;
	int error = errno;
	bool back = !entered || setns(home, CLONE_NEWNET) == 0;
	if (there >= 0)
		close(there);
	if (home >= 0)
		close(home);
	if (!entered)
		return err_why(why, err_from_errno(error),
			"cannot enter %s: %s; wan.sh up makes the namespaces, as root", path,
			strerror(error));
	if (*fd < 0)
		return err_why(why, err_from_errno(error),
			"cannot open a device or socket in %s: %s", path, strerror(error));
	if (!back)
		return err_why(why, ERR_state, "cannot leave %s", path);
	return ERR_OK;
}

/* ---- a device */

static int configure(int sock, const char *address)
{
	struct ifreq r = {.ifr_name = DEVICE};
	struct sockaddr_in a = {.sin_family = AF_INET};
	if (inet_pton(AF_INET, address, &a.sin_addr) != 1)
		return -1;
	memcpy(&r.ifr_addr, &a, sizeof a);
	if (ioctl(sock, SIOCSIFADDR, &r))
		return -1;
	a.sin_addr.s_addr = htonl(0xffffff00);
	memcpy(&r.ifr_netmask, &a, sizeof a);
	if (ioctl(sock, SIOCSIFNETMASK, &r))
		return -1;
	r.ifr_mtu = MTU;
	if (ioctl(sock, SIOCSIFMTU, &r))
		return -1;
	r.ifr_qlen = QUEUE_PACKETS;
	if (ioctl(sock, SIOCSIFTXQLEN, &r))
		return -1;
	r.ifr_flags = IFF_UP | IFF_RUNNING;
	return ioctl(sock, SIOCSIFFLAGS, &r);
}

static int open_tun(const void *address)
{
	struct ifreq r = {.ifr_name = DEVICE, .ifr_flags = IFF_TUN | IFF_NO_PI};
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -1;
	int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int failed = sock < 0 || ioctl(fd, TUNSETIFF, &r) || configure(sock, address);
	int error = errno;
	if (sock >= 0)
		close(sock);
	if (!failed)
		return fd;
	close(fd);
	errno = error;
	return -1;
}

enum err netns_tun(
	const char *prefix, const char *node, const char *address, int *fd, struct why *why)
{
	return inside(prefix, node, open_tun, address, fd, why);
}

/* ---- a socket */

static int open_socket(const void *kind)
{
	return socket(AF_INET, *(const int *)kind | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

enum err netns_socket(const char *prefix, const char *node, int kind, int *fd, struct why *why)
{
	return inside(prefix, node, open_socket, &kind, fd, why);
}
