#!/bin/sh
# Studies by shoal-sim: what a way of doing rounds costs in loss, at equal ledger tokens, three seeds.
#   study_rounds.sh BINARIES delay   loss against the delay, which is a part of a round, of rounds that overlap
#   study_rounds.sh BINARIES churn   peers that are killed every half minute against the same that are not
# Each run is a line in build/study/rounds/, kept when another one is stopped.  Ends with "study: delay ok ..." or
# "study: churn ok loss_gap=...".  SEEDS="1 2 3", JOBS=2.  KEPT=1 prints the table of delays of tests/data/study_delay.txt.
set -u
bin=$1 what=$2
study=build/study dir=build/study/rounds kept=tests/data/study_delay.txt

# name of the row, the round's part, changes of the spec, what makes the peers of the scenario
rows_of() {
	every='round.mode=timed round.steps=null round.validate_every=0'
	case $what in
	delay) # a round is 30 steps of two seconds
		every="$every round.seconds=60 train.total_tokens=1536000 train.warmup_tokens=76800"
		peer='"count":4,"speed":64'
		fast='"up":1000,"down":1000'
		echo "waits|0|$every round.overlap=false|{$peer,$fast}"
		for d in 0 0.05 0.1 0.2 0.4 0.8; do
			rtt=$(awk "BEGIN { print 60000 * $d }")
			echo "overlaps|$d|$every|{$peer,$fast,\"rtt_ms\":$rtt}"
		done
		# A whole contribution would take that part of a round: a half, a quarter, an eighth of the values is sent.
		echo "slow-links|0.2|$every|{$peer,\"up\":0.008,\"down\":0.008}"
		echo "slow-links|0.3|$every|{$peer,\"up\":0.0045,\"down\":0.0045}"
		echo "slow-links|0.4|$every|{$peer,\"up\":0.0037,\"down\":0.0037}" ;;
	churn) # a round is ten steps of half a second
		every="$every round.seconds=5 round.quorum=0.6 train.total_tokens=768000 train.warmup_tokens=38400"
		peer='"count":6,"speed":256,"up":10,"down":50,"rtt_ms":40'
		echo "calm|0|$every|{$peer}"
		echo "churned|0|$every|{$peer,\"churn\":{\"dies_every_s\":30,\"back_after_s\":3}}" ;;
	*)
		echo "study: failed: there is no study \"$what\": delay or churn" >&2
		exit 1 ;;
	esac
}

# Lines: row, part, seed, loss, delay, utilisation, tokens.
table() {
	awk '
	function median(list, n,   i, j, t) {
		for (i = 2; i <= n; i++)
			for (j = i; j > 1 && list[j] < list[j - 1]; j--) { t = list[j]; list[j] = list[j - 1]; list[j - 1] = t }
		return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
	}
	{
		row = $1 " " $2
		if (!(row in n)) order[++rows] = row
		i = ++n[row]; seed[row, i] = $3; loss[row, $3] = $4; delay[row] += $5; busy[row] += $6
	}
	END {
		print "| rounds | set | delay / round | loss, each seed | to the first row, each seed | median | busy |"
		print "| --- | --- | --- | --- | --- | --- | --- |"
		for (r = 1; r <= rows; r++) {
			row = order[r]; losses = gaps = ""; delete list
			for (i = 1; i <= n[row]; i++) {
				s = seed[row, i]; list[i] = loss[row, s] / loss[order[1], s] - 1
				losses = losses sprintf(" %.4f", loss[row, s]); gaps = gaps sprintf(" %+.2f %%", 100 * list[i])
			}
			gap[row] = median(list, n[row]); split(row, part, " ")
			printf "| %s | %s | %.3f |%s |%s | %+.2f %% | %.1f %% |\n", part[1], part[2], delay[row] / n[row], losses, gaps,
				100 * gap[row], 100 * busy[row] / n[row]
		}
		if (what == "churn") printf "study: churn ok loss_gap=%.4f\n", gap["churned 0"]
		else printf "study: delay ok gap_0.1=%.4f gap_0.4=%.4f gap_0.8=%.4f gap_half_the_values=%.4f\n",
			gap["overlaps 0.1"], gap["overlaps 0.4"], gap["overlaps 0.8"], gap["slow-links 0.2"]
	}' what="$what" "$1"
}

rows=$(rows_of) || exit 1
if [ -n "${KEPT:-}" ] && [ "$what" = delay ]; then
	table $kept
	exit
fi
tests/study_text.sh "$bin" || exit 1
mkdir -p $dir || exit 1
program=
[ "$what" = delay ] || program=$(sha256sum <"$bin/shoal-sim") # make chaos asks how this very program does
list=$(mktemp -d) || exit 1 # two of these at a time do not disturb each other
trap 'rm -rf "$list"' EXIT
: >$list/todo
: >$list/names
for seed in ${SEEDS:-1 2 3}; do
	echo "$rows" | while IFS='|' read -r row part changes peers; do
		id=$({ cat $study/spec.json; echo "$changes $peers$program"; } | sha256sum | cut -c1-12)
		name=$what-$row-$part-$id-$seed
		echo "$dir/$name.line" >>$list/names
		[ -s "$dir/$name.line" ] && continue
		printf '{"spec": "../spec.json", "data": "../data", "seed": %s, "peers": [%s]}\n' "$seed" "$peers" >"$dir/$name.json"
		echo "$row $part $seed $dir/$name seed=$seed $changes" >>$list/todo
	done
done
export bin
xargs -r -L 1 -P "${JOBS:-$(nproc)}" sh -c '
	row=$1 part=$2 seed=$3 name=$4
	shift 4
	"$bin/shoal-sim" run "$name.json" "$@" 2>"$name.err" |
		sed -n "s/^sim: ok .*tokens=\([0-9]*\) loss=\([0-9.]*\) utilisation=\([0-9.]*\) delay=\([0-9.]*\) .*/$row $part $seed \2 \4 \3 \1/p" >"$name.$$.tmp"
	[ -s "$name.$$.tmp" ] || { echo "study: failed: $name, see $name.err"; exit 255; }
	mv "$name.$$.tmp" "$name.line"
	echo "$(date +%T) $(cat "$name.line")"' one <$list/todo || exit 1
xargs cat <$list/names >$list/all
[ "$what" != delay ] || [ -n "${SEEDS:-}" ] || cp "$list/all" $kept
table "$list/all"
