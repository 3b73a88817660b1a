#!/bin/bash
# tests/check_long.sh: what takes too long for every change: all tests by both compilers and under three sanitizers, two minutes of
# chaos, a minute of fuzzing for each decoder.  An hour or two.  The last line is "N passed, N failed"; chaos and fuzz count as one each.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
passed=0 failed=0
mkdir -p build

tests() { # tests NAME VARIABLE=VALUE...: make check with these
	local name=$1 log=build/long-$1.log p f status
	shift
	echo "check-long: $name"
	make -j"$(nproc)" "$@" check >"$log" 2>&1
	status=$?
	read -r p _ f _ <<<"$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)"
	passed=$((passed + ${p:-0})) failed=$((failed + ${f:-0}))
	[ $status -ne 0 ] && [ "${f:-0}" -eq 0 ] && failed=$((failed + 1))
	echo "check-long: $name: ${p:-0} passed, ${f:-0} failed, exit status $status; $log"
}

step() { # step NAME COMMAND...
	local name=$1 log=build/long-$1.log
	shift
	echo "check-long: $name"
	if "$@" >"$log" 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
	echo "check-long: $(tail -n 1 "$log"); $log"
}

tests gcc CC=gcc
tests clang CC=clang O=build/clang
for mode in asan ubsan tsan; do tests "$mode" MODE=$mode; done
step chaos make chaos DURATION=120 SEED=1
step fuzz make fuzz DURATION=60
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
