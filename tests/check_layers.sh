#!/bin/sh
# Reads "folder: folders it may include" and checks every quoted #include against it.
rules=$(cat)
find $(printf '%s\n' "$rules" | cut -d: -f1) -name '*.[ch]' -o -name '*.cu' | xargs awk -v rules="$rules" '
BEGIN {
	n = split(rules, line, "\n")
	for (i = 1; i <= n; i++) {
		m = split(line[i], w, /[ :]+/)
		for (j = 2; j <= m; j++) ok[w[1] "/" w[j]] = 1
	}
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
	split($0, q, "\""); split(q[2], to, "/"); split(FILENAME, from, "/")
	if (!((from[1] "/" to[1]) in ok)) { print FILENAME ":" FNR ": " from[1] " may not include " q[2]; bad = 1 }
}
END { exit bad }'
