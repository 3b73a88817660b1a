#!/bin/sh
# make demo: trains a small GPT on real text and shows what it learned.  demo.sh BINARIES
# TEXT=FILE trains on another text.  Everything it makes is under build/demo/.
set -eu
bin=$1
dir=build/demo
rm -rf $dir
mkdir -p $dir
text=${TEXT:-}
if [ -z "$text" ]; then
	text=$dir/new-testament.txt
	# The King James New Testament, from Debian's bible-kjv; verse numbers are cut off.
	bible -f 'matt1:1-rev22:21' </dev/null 2>/dev/null | sed 's/^[^ ]* //' >$text
	[ -s $text ] || { echo "demo: the package bible-kjv gave no text; name another with TEXT=FILE"; exit 1; }
fi
start=$(date +%s)
"$bin/shoal-coordinator" prepare "$text" --out $dir/data
"$bin/shoal-peer" local configs/demo.json --data $dir/data --dir $dir/run | tee $dir/result
loss=$(sed -n 's/^local: done.* val_loss=\([0-9.]*\).*/\1/p' $dir/result)
"$bin/shoal-coordinator" export $dir/run --out $dir/export
echo
"$bin/shoal-peer" generate $dir/run --data $dir/data --prompt 'And Jesus said' --tokens 240
echo "demo: ok val_loss=$loss seconds=$(($(date +%s) - start))"
awk "BEGIN { exit !($loss < 1.90) }" || { echo "demo: not learned: the loss must be under 1.90 nats per byte"; exit 1; }
