#!/bin/sh
# Every header compiles alone.  Usage: check_headers.sh CC OUT CFLAGS...
cc=$1; out=$2; shift 2
bad=0
for h in $(find base model compress net kernels round peer coordinator sim tests -name '*.h'); do
	stamp=$out/headers/$h.ok
	[ "$stamp" -nt "$h" ] && continue
	mkdir -p "$(dirname "$stamp")"
	echo "#include \"$h\"" | $cc "$@" -MF /dev/null -Wno-unused-function -fsyntax-only -x c - && touch "$stamp" || { echo "$h does not compile alone"; bad=1; }
done
exit $bad
