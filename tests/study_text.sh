#!/bin/sh
# study_text.sh BINARIES: build/study/data and build/study/spec.json, which all studies train on, if they are not there yet.
dir=build/study
mkdir -p $dir || exit 1
if [ ! -s $dir/text ]; then
	# The King James New Testament, from Debian's bible-kjv; verse numbers are cut off.
	bible -f 'matt1:1-rev22:21' </dev/null 2>/dev/null | sed 's/^[^ ]* //' >$dir/text
	[ -s $dir/text ] || { echo "study: failed: the package bible-kjv gave no text"; exit 1; }
fi
"$1/shoal-coordinator" prepare $dir/text --out $dir/data --spec configs/study.json --write-spec $dir/spec.json \
	>$dir/prepare.out || { echo "study: failed: the text could not be prepared (see above)"; exit 1; }
