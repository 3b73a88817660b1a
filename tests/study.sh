#!/bin/sh
# make study: every row of tests/study_codec.c with every seed that has no result yet under build/study/ is trained, JOBS
# (default: one per core) at a time.  study.sh BINARIES.  ROWS=TEXT only rows whose name holds it, SEEDS="1 2 3".  A run that
# is killed is done again, what has finished stays.  Then all results are gathered in tests/data/study.json, and the table
# is printed.  KEPT=1 prints the table of the results that are kept there, without training.
set -u
bin=$1
dir=build/study
kept=tests/data/study.json
study=$bin/tests/study_codec
if [ -n "${KEPT:-}" ]; then
	exec "$study" table $kept
fi
mkdir -p $dir || exit 1
if [ ! -s $dir/text ]; then
	# The King James New Testament, from Debian's bible-kjv; verse numbers are cut off.
	bible -f 'matt1:1-rev22:21' </dev/null 2>/dev/null | sed 's/^[^ ]* //' >$dir/text
	[ -s $dir/text ] || { echo "study: failed: the package bible-kjv gave no text"; exit 1; }
fi
"$bin/shoal-coordinator" prepare $dir/text --out $dir/data --spec configs/study.json --write-spec $dir/spec.json \
	>$dir/prepare.out || { echo "study: failed: the text could not be prepared (see above)"; exit 1; }
id=$(sha256sum <$dir/spec.json | cut -c1-12) # results of another spec are not mixed with these

todo=$dir/todo
: >$todo
for seed in ${SEEDS:-1 2 3}; do
	for row in $("$study" list | grep -e "${ROWS:-}"); do
		[ -s "$dir/$id-$row-$seed.json" ] || echo "$row $seed" >>$todo
	done
done
: >$dir/done
export study dir id all=$(wc -l <$todo) start=$(date +%s)
# One row and seed; what is written counts only when it is whole.
xargs -r -n 2 -P "${JOBS:-$(nproc)}" sh -c '
	out=$dir/$id-$1-$2
	"$study" run $dir/spec.json $dir/data "$1" "$2" "$out.tmp" >/dev/null && mv "$out.tmp" "$out.json" ||
		{ echo "study: failed: row $1, seed $2"; exit 255; }
	echo >>$dir/done
	n=$(wc -l <$dir/done) passed=$(($(date +%s) - start))
	echo "$(date +%T) $n of $all: row $1, seed $2; about $((passed * (all - n) / n)) s to go"' one <$todo || exit 1
printf '[\n' >$dir/all
first=1
for f in $dir/$id-*-*.json; do
	[ -s "$f" ] || continue
	[ $first = 1 ] || printf ',\n' >>$dir/all
	first=0
	cat "$f" >>$dir/all
done
printf '\n]\n' >>$dir/all
if [ -z "${ROWS:-}${SEEDS:-}" ]; then cp $dir/all $kept; fi
exec "$study" table $dir/all
