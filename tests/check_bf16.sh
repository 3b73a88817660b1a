#!/bin/sh
# check_bf16.sh BUILD: 500 steps on the King James New Testament twice, with products in float32 and in bf16; fails when
# the validation losses differ by more than half a per cent, or when there was no difference at all.
set -u
bin=$1 dir=build/bf16
give_up() {
	echo "check-bf16: $1"
	exit 1
}
train() { # train PRECISION: prints the validation loss
	"$bin/shoal-coordinator" prepare $dir/text --out $dir/data --spec configs/demo.json --write-spec "$dir/$1.json" \
		model.layers=4 model.width=256 train.batch=4 train.micro_batch=4 train.total_tokens=256000 \
		train.warmup_tokens=25600 train.lr=0.001 train.precision="$1" >$dir/prepare.out || exit 1
	"$bin/shoal-peer" local "$dir/$1.json" --data $dir/data --dir "$dir/$1" 2>"$dir/$1.log" |
		sed -n 's/^local: done .* steps=500 val_loss=\([^ ]*\) .*/\1/p'
}
rm -rf $dir
mkdir -p $dir || exit 1
bible -f 'matt1:1-rev22:21' </dev/null 2>/dev/null | sed 's/^[^ ]* //' >$dir/text
[ -s $dir/text ] || give_up "the package bible-kjv gave no text"
float32=$(train float32) bf16=$(train bf16)
[ -n "$float32" ] && [ -n "$bf16" ] || give_up "a training failed; see $dir/*.log"
# The files differ in any case: each names its run.
different=$(cmp -l $dir/float32/local-000000000500.state $dir/bf16/local-000000000500.state | head -n 10000 | wc -l)
[ "$different" -eq 10000 ] || give_up "both trainings gave the same bits: no product was in bf16 (shoal-peer bench tells why)"
off=$(awk "BEGIN { d = $bf16 / $float32 - 1; print d < 0 ? -d : d }")
echo "check-bf16: float32 val_loss=$float32 bf16 val_loss=$bf16 apart=$off, at most 0.005"
awk "BEGIN { exit !($off <= 0.005) }"
