#!/bin/sh
# Banned calls, file names used once, file lengths, format.
bad=0
code=$(find base model compress net kernels round peer coordinator sim tests -name '*.[ch]' | sort)
grep -nEw '(atoi|atol|atof|sprintf|vsprintf|strcpy|strcat|strncpy|strtok|gets|rand|srand|alloca|localtime|gmtime|ctime|asctime|mktemp|tmpnam|signal)[ ]*\(' $code /dev/null |
	grep -vE '^[^:]*:[0-9]*:[[:space:]]*(//|\*|/\*)' && { echo "banned call (see above): use base/ or the bounded form"; bad=1; }
grep -nE '\bsleep\(|usleep\(|nanosleep\(' $(find tests -name '*.[ch]') /dev/null && { echo "a test waits for an event with a deadline, never sleeps"; bad=1; }
grep -nE '\b(TODO|FIXME|XXX)\b' $code Makefile /dev/null && { echo "no unfinished marks"; bad=1; }
dup=$(printf '%s\n' $code | grep -v '^kernels/.*/' | sed 's|.*/||' | grep -v '^main\.c$' | sort | uniq -d)
[ -n "$dup" ] && { echo "file names must be unique: $dup"; bad=1; }
long=$(wc -l $code | awk '$2 != "total" && $1 > 600 { print $2 ": " $1 " lines" }')
[ -n "$long" ] && { echo "longer than 600 lines, find a seam: $long"; bad=1; }
if command -v clang-format >/dev/null; then
	clang-format --dry-run -Werror $code >/dev/null 2>&1 || {
		clang-format --dry-run $code 2>&1 | grep warning | cut -d: -f1 | sort -u | sed 's/$/: not formatted (make format)/'; bad=1; }
else
	echo "clang-format is missing: format not checked"; bad=1
fi
exit $bad
