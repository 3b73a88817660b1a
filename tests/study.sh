#!/bin/sh
# make study T=codec: every row of tests/study_codec.c with every seed that has no result yet under build/study/ is trained, JOBS
# (default: one per core) at a time.  study.sh BINARIES codec; peers, delay and churn are in scripts of their own.  ROWS=TEXT only rows whose name holds it, SEEDS="1 2 3".  A run that
# is killed is done again, what has finished stays.  Then all results are gathered in tests/data/study.json, and the table
# is printed.  KEPT=1 prints the table of the results that are kept there, without training.
set -u
bin=$1
case $2 in
codec) ;;
peers) exec tests/study_peers.sh "$bin" ;;
*) exec tests/study_rounds.sh "$bin" "$2" ;;
esac
dir=build/study
kept=tests/data/study.json
study=$bin/tests/study_codec
if [ -n "${KEPT:-}" ]; then
	exec "$study" table $kept
fi
tests/study_text.sh "$bin" || exit 1
"$study" list >$dir/rows || exit 1
# Results of another spec, or of a row that was made otherwise, have other names.
while read -r row made; do
	id=$({ cat $dir/spec.json; echo "$made"; } | sha256sum | cut -c1-12)
	echo "$row $dir/$row-$id"
done <$dir/rows >$dir/names

awk -v pattern="${ROWS:-}" '$1 ~ pattern' $dir/names >$dir/picked
[ -s $dir/picked ] || { echo "study: failed: no row's name holds \"$ROWS\"; see $dir/rows"; exit 1; }
for seed in ${SEEDS:-1 2 3}; do
	while read -r row name; do
		[ -s "$name-$seed.json" ] || echo "$row $seed $name-$seed"
	done <$dir/picked
done >$dir/todo
: >$dir/done
export study dir all=$(wc -l <$dir/todo) start=$(date +%s)
# One row and seed; what is written counts only when it is whole.
xargs -r -n 3 -P "${JOBS:-$(nproc)}" sh -c '
	"$study" run $dir/spec.json $dir/data "$1" "$2" "$3.tmp" >/dev/null && mv "$3.tmp" "$3.json" ||
		{ echo "study: failed: row $1, seed $2"; exit 255; }
	echo >>$dir/done
	n=$(wc -l <$dir/done) passed=$(($(date +%s) - start))
	echo "$(date +%T) $n of $all: row $1, seed $2; about $((passed * (all - n) / n)) s to go"' one <$dir/todo || exit 1
between='['
while read -r row name; do
	for f in "$name"-*.json; do
		[ -s "$f" ] || continue
		printf '%s\n' "$between"
		cat "$f"
		between=,
	done
done <$dir/names >$dir/all
printf '\n]\n' >>$dir/all
if [ -z "${ROWS:-}${SEEDS:-}" ]; then cp $dir/all $kept; fi
exec "$study" table $dir/all
