#!/bin/sh
# setup.sh check: is everything there that build, tests and demo need?  setup.sh install: put it there.
# One row a need: how to see it, and what each system calls it.
apt="gcc make pkg-config libc6-dev libevent-dev libcurl4-openssl-dev libssl-dev libzmq3-dev libzstd-dev libjansson-dev libinih-dev
libsqlite3-dev libopenblas-dev libnanopb-dev nanopb python3-protobuf protobuf-compiler libcmocka-dev libjs-chart.js bible-kjv
clang clang-format libclang-rt-14-dev python3 curl ca-certificates procps iproute2"
# OPTIONAL=1 make deps: what the test of the page needs, which is skipped without it, oneDNN, a quicker library of matrix
# products for the peer, the data of test_kernels_onnx, and what asks home routers for a port (join --upnp).
apt_optional="chromium chromium-driver libdnnl-dev libonnx-testdata libminiupnpc17"
# For make check-torch and PyTorch's rows of make bench T=compute: OPTIONAL=torch make deps
apt_torch="python3-torch libopenblas0-openmp"
dnf="gcc make pkgconf-pkg-config libevent-devel libcurl-devel openssl-devel zeromq-devel libzstd-devel jansson-devel inih-devel sqlite-devel openblas-devel nanopb-devel nanopb python3-protobuf protobuf-compiler libcmocka-devel clang clang-tools-extra compiler-rt"
apk="build-base pkgconf libevent-dev curl-dev openssl-dev zeromq-dev zstd-dev jansson-dev inih-dev sqlite-dev openblas-dev nanopb-dev nanopb py3-protobuf protoc cmocka-dev clang clang-extra-tools compiler-rt"
pacman="base-devel libevent curl openssl zeromq zstd jansson libinih sqlite openblas nanopb python-protobuf protobuf cmocka clang compiler-rt"
[ "$(uname -s)" = Linux ] || { echo "shoal runs on Linux (x86-64 and aarch64); on Windows use WSL2. This is $(uname -s)."; exit 1; }

check() {
	for c in pkg-config protoc clang-format bible curl; do
		command -v $c >/dev/null 2>&1 || { echo "missing: $c"; return 1; }
	done
	for p in libevent libevent_openssl libcurl openssl libzmq libzstd jansson sqlite3 inih cmocka; do
		pkg-config --exists $p || { echo "missing: $p"; return 1; }
	done
	for f in cblas.h pb.h; do
		echo "#include <$f>" | ${CC:-gcc} -E -x c - >/dev/null 2>&1 || { echo "missing: $f"; return 1; }
	done
	command -v nanopb_generator.py >/dev/null || command -v nanopb_generator >/dev/null || { echo "missing: nanopb_generator"; return 1; }
	[ -e /usr/share/javascript/chart.js/chart.min.js ] || { echo "missing: chart.js"; return 1; }
}

install() {
	sudo=
	if [ "$(id -u)" -ne 0 ]; then
		command -v sudo >/dev/null 2>&1 || { echo "Run as root, or install sudo: the build needs packages."; exit 1; }
		sudo=sudo
	fi
	if command -v apt-get >/dev/null 2>&1; then
		export DEBIAN_FRONTEND=noninteractive
		$sudo apt-get update -qq &&
			$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $apt >/dev/null ||
			{ echo "apt-get could not install the packages: $apt"; exit 1; }
	elif command -v dnf >/dev/null 2>&1; then echo "Run: sudo dnf install -y $dnf"; exit 1
	elif command -v apk >/dev/null 2>&1; then echo "Run: sudo apk add $apk"; exit 1
	elif command -v pacman >/dev/null 2>&1; then echo "Run: sudo pacman -S --needed $pacman"; exit 1
	else echo "No known package manager. Needed (Debian's names): $apt"; exit 1
	fi
	check || exit 1
}

optional() {
	if [ "$OPTIONAL" = torch ]; then apt_optional=$apt_torch
	elif command -v chromedriver >/dev/null 2>&1 && [ -e /usr/include/dnnl.h ] && [ -e /usr/share/libonnx-testdata ] &&
		ls /usr/lib/*/libminiupnpc.so.* >/dev/null 2>&1; then return; fi
	command -v apt-get >/dev/null 2>&1 || { echo "Optional (Debian's names): $apt_optional"; return; }
	[ "$(id -u)" -eq 0 ] && sudo= || sudo=sudo
	$sudo apt-get update -qq
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $apt_optional >/dev/null ||
		echo "apt-get could not install $apt_optional: what needs them will be skipped"
}

case ${1:-} in
check) check ;;
install)
	check >/dev/null || install || exit 1
	[ -z "${OPTIONAL:-}" ] || optional ;;
*) echo "usage: setup.sh check|install"; exit 2 ;;
esac
