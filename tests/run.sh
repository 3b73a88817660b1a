#!/bin/sh
# Runs test programs one after another, prints what fails and a last line "N passed, N failed[, N skipped]".
# A program that crashes, hangs beyond its limit or reports no test at all counts as failed.
limit=${TEST_LIMIT:-300}
passed=0 failed=0 skipped=0
work=$(mktemp -d "${TMPDIR:-/tmp}/shoal-check.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
export CMOCKA_MESSAGE_OUTPUT=TAP
export TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp:halt_on_error=1:${TSAN_OPTIONS:-}"
export LSAN_OPTIONS="suppressions=$PWD/tests/lsan.supp:${LSAN_OPTIONS:-}"
for t in "$@"; do
	name=$(basename "$t")
	start=$(date +%s)
	timeout -k 5 "$limit" "$t" >"$work/out" 2>"$work/err"
	rc=$?
	case $name in
	fuzz_*) # a corpus replay is one test
		if [ $rc -eq 0 ]; then p=1 f=0; else p=0 f=1; fi
		s=0 ;;
	*)
		# cmocka prints a skipped test as "not ok N # SKIP name"
		p=$(grep -c '^ok ' "$work/out"); s=$(grep -c '^not ok .*# SKIP' "$work/out"); f=$(grep -c '^not ok ' "$work/out")
		f=$((f - s))
		[ $rc -ne 0 ] && [ "$f" -eq 0 ] && f=1
		[ $((p + f + s)) -eq 0 ] && f=1 ;;
	esac
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	mark=ok; [ "$f" -gt 0 ] && mark=FAILED
	printf '  %-32s %3d passed, %d failed, %d skipped  %ds  %s\n' "$name" "$p" "$f" "$s" $(($(date +%s) - start)) "$mark"
	if [ "$f" -gt 0 ]; then
		[ $rc -eq 124 ] && echo "  $name: did not end within $limit s"
		grep -A8 '^not ok ' "$work/out" | tail -60
		tail -40 "$work/err"
	fi
	grep '^not ok .*# SKIP' "$work/out" | sed 's/^not ok/    skipped/'
done
printf '%d passed, %d failed' "$passed" "$failed"
[ "$skipped" -gt 0 ] && printf ', %d skipped' "$skipped"
printf '\n'
[ "$failed" -eq 0 ]
