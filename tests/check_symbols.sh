#!/bin/sh
# file = module = prefix: every global symbol of X.o starts with X_ (or is X itself), or with its folder's name in
# kernels/ref and kernels/cpu (ref_NAME, ref64_NAME, cpu_NAME), where the backend's name is the prefix.
bad=0
for o in "$@"; do
	base=$(basename "$o" .o); base=${base%.f64}
	folder=$(basename "$(dirname "$o")")
	nm -g --defined-only "$o" 2>/dev/null | awk -v base="$base" -v folder="$folder" -v o="$o" '
	$2 ~ /[TDBRCVW]/ {
		s = $3
		if (s ~ /^(__|_GLOBAL|asan|tsan|ubsan)/ || s ~ /\./) next
		if (s == base || index(s, base "_") == 1) next
		if ((folder == "ref" || folder == "cpu") && (index(s, folder "_") == 1 || index(s, folder "64_") == 1)) next
		print o ": " s " does not start with " base "_"; bad = 1
	}
	END { exit bad }' || bad=1
done
exit $bad
