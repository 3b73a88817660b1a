#!/bin/sh
# fuzz.sh PATTERN SECONDS: builds each matching tests/fuzz_*.c with libFuzzer and the address and undefined-behaviour
# sanitizers, runs it from the kept corpus, and ends with one line.  New inputs go to build/fuzz/NAME/, not into the tree.
pattern=$1 seconds=${2:-60}
ran=0 crashed=0
for src in tests/fuzz_*.c; do
	name=$(basename "$src" .c)
	[ "$name" = fuzz_replay ] && continue
	case $name in *"$pattern"*) ;; *) continue ;; esac
	make --no-print-directory MODE=asan O=build/fuzzer CC="${FUZZ_CC:-clang}" CFLAGS="-fsanitize=fuzzer-no-link,undefined" \
		LDFLAGS="-fsanitize=fuzzer,undefined" "build/fuzzer/tests/$name.libfuzzer" >/dev/null || exit 1
	mkdir -p "build/fuzz/$name"
	"build/fuzzer/tests/$name.libfuzzer" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
		-artifact_prefix="build/fuzz/$name-" "build/fuzz/$name" "tests/data/fuzz/${name#fuzz_}" >"build/fuzz/$name.log" 2>&1
	rc=$?
	ran=$((ran + 1))
	runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz/$name.log")
	[ $rc -ne 0 ] && { crashed=$((crashed + 1)); tail -30 "build/fuzz/$name.log"; }
	printf '  %-32s %s runs, exit %d\n' "$name" "${runs:-?}" "$rc"
done
echo "fuzz: targets=$ran crashed=$crashed seconds_each=$seconds"
[ "$ran" -gt 0 ] && [ "$crashed" -eq 0 ]
