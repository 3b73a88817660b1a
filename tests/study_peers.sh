#!/bin/sh
# make study T=peers: which outer rule, with which step, does for 2 to 64 peers alike, at equal tokens of all peers together.
# study_peers.sh BINARIES.  Each run is a line in build/study/peers/, kept when another one is stopped.  ROWS=TEXT only rows
# whose name holds it, SEEDS="1 2 3", JOBS=2.  KEPT=1 prints the table of tests/data/study_peers.txt, without training.
set -u
bin=$1 study=build/study dir=build/study/peers kept=tests/data/study_peers.txt
all_peers='2 4 8 16 32 64'
# Tried on the first seed only, and left out: sparseloco 0.0625 for 64 peers (2.4283) and 0.25 for 16 (1.8859), mean_R 4 and 16
# for 64 (2.8261, 2.9847), diloco 0.7 with 0.9 for 64 (2.9799).
# name, rule, its lr for 4 peers, the power of peers / 4 that it is multiplied by, momentum, codec
rows='one-step sparseloco 1 0 0 topk two 4096 64
root sparseloco 1 -0.5 0 topk two 4096 64
average average 1 0 0 all f32 4096 0
diloco diloco 0.5 0 0.8 all int8 256 0'

# Lines: row, peers, seed, loss, rule, lr.
table() {
	awk -v peers="$all_peers" '
	{
		row = $1; key = row SUBSEP $2; sum[key] += $4; n[key]++
		if (!(row in seen)) { seen[row] = 1; order[++rows] = row; rule[row] = $5 }
		if (!(key in step)) step[key] = $6
	}
	function mean(row, p) { return n[row, p] ? sum[row, p] / n[row, p] : "" }
	END {
		np = split(peers, list, " ")
		printf "| rule |"
		for (i = 1; i <= np; i++) printf " %d |", list[i]
		printf " worst | seeds |\n| --- |"
		for (i = 0; i <= np + 1; i++) printf " --- |"
		printf "\n"
		for (i = 1; i <= np; i++)
			for (r = 1; r <= rows; r++) {
				m = mean(order[r], list[i])
				if (m != "" && (best[i] == "" || m < best[i])) best[i] = m
			}
		for (r = 1; r <= rows; r++) {
			row = order[r]
			if (row == "alone") continue
			printf "| %s, %s |", row, rule[row]; worst = 0; whole = 1; few = ""
			for (i = 1; i <= np; i++) {
				m = mean(row, list[i])
				if (m == "") { whole = 0; printf " |"; continue }
				if (m / best[i] - 1 > worst) worst = m / best[i] - 1
				if (few == "" || n[row, list[i]] < few) few = n[row, list[i]]
				printf " %.4f (%g) |", m, step[row, list[i]]
			}
			printf " %+.1f %% | %d |\n", 100 * worst, few
			if (whole && (least == "" || worst < least)) { least = worst; pick = row }
		}
		printf "\none peer alone with all the tokens: %.4f\n", mean("alone", 1)
		printf "study: peers ok rule=%s worst_gap=%.4f\n", pick, least
	}' "$1"
}

if [ -n "${KEPT:-}" ]; then
	table $kept
	exit
fi
tests/study_text.sh "$bin" || exit 1
mkdir -p $dir || exit 1
list=$(mktemp -d) || exit 1 # two of these at a time do not disturb each other
trap 'rm -rf "$list"' EXIT
{
	echo "alone 1 average 1 0 all f32 4096 0"
	echo "$rows" | while read -r row rule lr power rest; do
		for peers in $all_peers; do
			echo "$row $peers $rule $(awk "BEGIN { printf \"%.4g\", $lr * ($peers / 4) ^ $power }") $rest"
		done
	done
} | awk -v pattern="${ROWS:-}" '$1 ~ pattern' >$list/runs
: >$list/todo
: >$list/names
for seed in ${SEEDS:-1 2 3}; do
	while read -r row peers made; do
		id=$({ cat $study/spec.json; echo "$made"; } | sha256sum | cut -c1-12)
		echo "$dir/$row-$peers-$id-$seed" >>$list/names
		[ -s "$dir/$row-$peers-$id-$seed" ] || echo "$dir/$row-$peers-$id-$seed $row $peers $seed $made" >>$list/todo
	done <$list/runs
done
export bin study
xargs -r -L 1 -P "${JOBS:-$(nproc)}" sh -c '
	name=$1 row=$2 peers=$3 seed=$4
	shift 4
	out=$("$bin/tests/study_peers" $study/spec.json $study/data "$seed" "$peers" "$@") || exit 255
	echo "$row $peers $seed ${out% *} $1 $2" >"$name.$$.tmp" && mv "$name.$$.tmp" "$name"
	echo "$(date +%T) $(cat "$name")"' one <$list/todo || exit 1
xargs cat <$list/names >$list/all
[ -n "${ROWS:-}${SEEDS:-}" ] || cp $list/all $kept
table $list/all
