#!/bin/sh
# Slow links on one machine: network namespaces joined by tests/wan/emulator.c.  As root, on Linux.
#
#   wan.sh up PROFILE        home, continents, lossy, a, b, c (tests/wan/*.bed), or a FILE with a slash in its name
#   wan.sh run NODE CMD...   a command at a node; becomes that command, so its exit status and its signals are its own
#   wan.sh address NODE      10.77.0.N, which every other node reaches
#   wan.sh nodes             name, address, site and speed of each
#   wan.sh tell WORD...      changes it meanwhile: "node p1 up=1 down=1 delay=200", "link s1 s2 loss=0.05", "cut p1",
#                            "heal p1", "cut s1 s2"; "stats" tells bytes and losses by node and by link
#   wan.sh down              ends what still runs there, and takes everything away; also after a crash
#   wan.sh allowed           exit 0 where this is possible; else says why not, exit 77
#   wan.sh measure [PROFILE...]   table of what was asked and achieved, for all profiles when none is named
#
# Where namespaces are not allowed, up says so, and run starts the command here, with the environment that makes shoal-peer
# hold back what it sends: the rates up and the round trips are right, nothing is lost, nothing else is slowed, and tell
# and measure are not there.  WAN_PLAIN=1 does that anywhere.
#
# WAN_NAME names the bed (default wan): beds with other names run beside each other.  SHOAL_BIN is where the build is.
set -u
here=$(cd "$(dirname "$0")" && pwd)
name=${WAN_NAME:-wan}
state=${TMPDIR:-/tmp}/shoal-$name
emulator=${SHOAL_BIN:-$here/../../build/release}/tests/wan/emulator

die() {
	echo "wan.sh: $1" >&2
	exit 1
}
allowed() {
	[ -z "${WAN_PLAIN:-}" ] || { echo "WAN_PLAIN is set"; return 77; }
	command -v ip >/dev/null 2>&1 || { echo "ip is missing (package iproute2)"; return 77; }
	[ "$(id -u)" -eq 0 ] || { echo "only root may make network namespaces"; return 77; }
	ip netns add "shoal-try-$$" 2>/dev/null || { echo "network namespaces are not allowed here"; return 77; }
	ip netns exec "shoal-try-$$" sh -c 'exec 3<>/dev/net/tun' 2>/dev/null
	tun=$?
	ip netns del "shoal-try-$$"
	[ $tun -eq 0 ] || { echo "/dev/net/tun cannot be opened here"; return 77; }
}
bed() {
	case $1 in
	*/*) echo "$1" ;;
	*) [ -e "$here/$1.bed" ] || die "there is no profile $1: $(profiles)"
		echo "$here/$1.bed" ;;
	esac
}
profiles() { (cd "$here" && ls ./*.bed | sed 's|./||; s|\.bed||' | tr '\n' ' '); }
is_plain() { [ -e "$state/plain" ]; }
is_up() { is_plain || is_real; }
is_real() { [ -e "$state/pid" ] && kill -0 "$(cat "$state/pid")" 2>/dev/null; }
need_real() { need_up && ! is_plain || die "not without namespaces"; }
need_up() { is_up || die "no bed is up: wan.sh up PROFILE"; }

# The same everywhere, so that figures mean something: Linux's own usual buffers, cubic, nothing learned from before.
# A namespace may choose only what the host allows everybody: cubic is added there, and stays.
allow_cubic() {
	list=/proc/sys/net/ipv4/tcp_allowed_congestion_control
	grep -qw cubic $list || echo "$(cat $list) cubic" >$list
}
settle() {
	ip -n "$1" link set lo up &&
		ip netns exec "$1" sh -c 'cd /proc/sys/net && echo cubic >ipv4/tcp_congestion_control &&
			echo 4096 16384 4194304 >ipv4/tcp_wmem && echo 4096 131072 6291456 >ipv4/tcp_rmem &&
			echo 1 >ipv4/tcp_no_metrics_save && { echo 1 >ipv6/conf/all/disable_ipv6 || :; } 2>/dev/null'
}
up_plain() {
	(umask 077 && mkdir -p "$state") && cp "$1" "$state/bed" && : >"$state/plain" || die "cannot write $state"
	echo "wan.sh: $2: only what peers send is slowed" >&2
}
up() {
	[ -x "$emulator" ] || die "$emulator is not built: make wan, or name the build in SHOAL_BIN"
	is_up && die "a bed named $name is up: wan.sh down, or another WAN_NAME"
	file=$(bed "$1") || return 1
	nodes=$("$emulator" nodes "$file") || return 1
	why=$(allowed) || { up_plain "$file" "$why"; return; }
	down
	(umask 077 && mkdir -p "$state") && cp "$file" "$state/bed" || die "cannot write $state"
	trap 'down; exit 1' INT TERM
	allow_cubic || die "the host has no congestion control cubic"
	for node in $(echo "$nodes" | cut -d' ' -f1); do
		ip netns add "$name-$node" && settle "$name-$node" || { down; die "cannot make the namespace $name-$node"; }
	done
	setsid "$emulator" run "$state/bed" "$name" "$state/socket" >"$state/log" 2>&1 </dev/null &
	echo $! >"$state/pid"
	until [ -S "$state/socket" ]; do
		is_real || { cat "$state/log" >&2; down; exit 1; }
		sleep 0.02
	done
	trap - INT TERM
}
# Everything that has the bed's name, whatever state it was left in.
down() {
	all=$(ip netns list 2>/dev/null | cut -d' ' -f1 | grep "^$name-")
	for ns in $all; do
		pids=$(ip netns pids "$ns" 2>/dev/null)
		[ -z "$pids" ] || kill -9 $pids 2>/dev/null
	done
	if is_real; then
		pid=$(cat "$state/pid")
		kill "$pid"
		while kill -0 "$pid" 2>/dev/null; do sleep 0.02; done
	fi
	for ns in $all; do ip netns del "$ns"; done
	rm -rf "$state"
}
measure() {
	why=$(allowed) || { echo "wan: skipped reason=\"$why\""; return 0; }
	failed=0
	for profile in ${*:-home continents lossy a b c}; do
		echo "$profile:"
		if up "$profile"; then
			trap 'down; exit 1' INT TERM
			"$emulator" measure "$state/bed" "$name" "$profile" || failed=1
			down
		else
			echo "wan: failed profile=$profile"
			failed=1
		fi
	done
	return $failed
}

what=${1:-}
[ $# -eq 0 ] || shift
case $what in
up) [ $# -eq 1 ] || die "which profile? $(profiles)"
	up "$1" ;;
run) need_up
	[ $# -ge 2 ] || die "run NODE CMD..."
	if is_plain; then
		slow=$("$emulator" path "$state/bed" "$1") || exit 1
		shift
		exec env $slow "$@"
	fi
	[ -e "/run/netns/$name-$1" ] || die "there is no node $1 (wan.sh nodes)"
	node=$1
	shift
	exec ip netns exec "$name-$node" "$@" ;;
address) need_up
	! is_plain || { echo 127.0.0.1; exit; }
	"$emulator" nodes "$state/bed" | awk -v n="${1:-}" '$1 == n { print $2; ok = 1 } END { exit !ok }' || die "there is no node ${1:-} (wan.sh nodes)" ;;
nodes) need_up
	"$emulator" nodes "$state/bed" ;;
tell) need_real
	"$emulator" tell "$state/socket" "$@" ;;
down) down ;;
allowed) allowed ;;
measure) measure "$@" ;;
*) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"
	exit 2 ;;
esac
