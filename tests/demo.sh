#!/bin/sh
# make demo: a coordinator and three peers on loopback, separate processes with the real protocol, train a small GPT on
# real text.  demo.sh BINARIES.  TEXT=FILE takes another text, LONG=1 trains until the loss is under 1.60.  Everything it
# makes is under build/demo/.  Exit 0 only if the peers together learned what one alone cannot.
set -u
bin=$1
dir=build/demo
need=1.90 # nats per byte; a peer alone with its third of the tokens reaches about 2.1
tokens=1198080
[ -n "${LONG:-}" ] && need=1.60 tokens=2396160
pids=
stop() {
	[ -n "$pids" ] && kill $pids 2>/dev/null
	wait 2>/dev/null
}
give_up() {
	echo "demo: failed: $1"
	exit 1
}
value() { # value KEY LINE
	printf '%s\n' "$2" | sed -n "s/.* $1=\([^ ]*\).*/\1/p"
}
trap stop EXIT
trap 'exit 130' INT TERM

start=$(date +%s)
rm -rf $dir
mkdir -p $dir || exit 1
text=${TEXT:-}
if [ -z "$text" ]; then
	text=$dir/new-testament.txt
	# The King James New Testament, from Debian's bible-kjv; verse numbers are cut off.
	bible -f 'matt1:1-rev22:21' </dev/null 2>/dev/null | sed 's/^[^ ]* //' >$text
	[ -s $text ] || give_up "the package bible-kjv gave no text; name another with TEXT=FILE"
fi
"$bin/shoal-coordinator" prepare "$text" --out $dir/data --spec configs/demo.json --write-spec $dir/spec.json \
	train.total_tokens=$tokens >$dir/prepare.out || give_up "the text could not be prepared (see above)"

port=${PORT:-0} coordinator= peer1= peer2= peer3=
start_coordinator() {
	"$bin/shoal-coordinator" serve $dir/spec.json --data $dir/data --dir $dir/coordinator --address 127.0.0.1 --port "$port" \
		--link-port 0 --invite-file $dir/join.link --exit-at-end >>$dir/coordinator.out 2>>$dir/coordinator.log &
	coordinator=$!
	pids="$pids $!"
}
start_peer() {
	"$bin/shoal-peer" join $dir/join.link --dir $dir/peer$1 --name peer$1 --threads 1 >>$dir/peer$1.out 2>>$dir/peer$1.log &
	eval "peer$1=$!"
	pids="$pids $!"
}
# Somebody may kill -9 any of the four to see what happens: it comes back.  Any other bad end is a fault and ends the demo.
killed=137
ended() { # ended PID: 0 when it has ended by itself; sets status
	kill -0 "$1" 2>/dev/null && return 1
	wait "$1"
	status=$?
}
look_after_peers() {
	for i in 1 2 3; do
		eval "pid=\$peer$i"
		[ "$pid" = done ] || ! ended "$pid" && continue
		eval "peer$i=done"
		[ $status -eq 0 ] && continue
		[ $status -eq $killed ] || { tail -n 5 $dir/peer$i.log; give_up "peer$i ended with status $status"; }
		echo "demo: peer$i was killed; it comes back"
		start_peer $i
	done
}
start_coordinator
tries=0
until grep -q '^join link:' $dir/coordinator.out 2>/dev/null; do
	kill -0 $coordinator 2>/dev/null || { cat $dir/coordinator.log; give_up "the coordinator did not start"; }
	tries=$((tries + 1))
	[ $tries -gt 300 ] && give_up "the coordinator did not start within 30 s"
	sleep 0.1
done
page=$(sed -n 's/^page: //p' $dir/coordinator.out)
port=$(printf '%s' "$page" | sed 's|.*:\([0-9]*\)/*$|\1|')
echo "$page"
cat $dir/prepare.out
for i in 1 2 3; do start_peer $i; done

# The live line is the coordinator's own last word; on a terminal it is rewritten in place.
shown=
while :; do
	if ended $coordinator; then
		[ $status -eq $killed ] || break
		echo "demo: the coordinator was killed; it comes back"
		start_coordinator
	fi
	look_after_peers
	line=$(tail -n 1 $dir/coordinator.log | cut -c1-110)
	if [ "$line" != "$shown" ]; then
		if [ -t 1 ]; then printf '\r\033[K%s' "$line"; else echo "$line"; fi
		shown=$line
	fi
	sleep 1
done
[ -t 1 ] && echo
[ $status -eq 0 ] || { tail -n 20 $dir/coordinator.log; give_up "the coordinator ended with an error"; }
done=$(grep '^serve: finished' $dir/coordinator.out)
[ -n "$done" ] || { tail -n 20 $dir/coordinator.log; give_up "the run did not finish"; }

replayed=$("$bin/shoal-coordinator" replay $dir/coordinator --verify) || give_up "the ledger does not replay: $replayed"
exported=$("$bin/shoal-coordinator" export "$(value snapshot "$done")" --out $dir/export --data $dir/data) ||
	give_up "the model could not be exported"
same=no
[ -n "$(value state "$replayed")" ] && [ "$(value state "$replayed")" = "$(value state "$exported")" ] && same=equal
echo "A sample of what it writes:"
"$bin/shoal-peer" generate "$(value snapshot "$done")" --data $dir/data --prompt 'And Jesus said' --tokens 240
if [ -n "${LONG:-}" ]; then
	alone=$("$bin/shoal-peer" local $dir/spec.json train.total_tokens=$((tokens / 3)) train.warmup_tokens=$((tokens / 60)) \
		--data $dir/data --dir $dir/alone 2>/dev/null)
	echo "One peer alone with its third of the tokens: val_loss=$(value val_loss "$alone")"
fi

loss=$(value val_loss "$done") share=$(value min_share "$done")
verdict=failed
awk "BEGIN { exit !(\"$loss\" + 0 > 0 && $loss < $need && $share >= 0.20) }" && [ $same = equal ] &&
	[ "$(value peers "$done")" = 3 ] && verdict=ok
echo "demo: $verdict val_loss=$loss start_loss=$(value start_loss "$done") tokens=$(value tokens "$done") rounds=$(value rounds "$done") peers=$(value peers "$done") min_share=$share bits_per_param_up=$(value bits_per_param_up "$done") bits_per_param_down=$(value bits_per_param_down "$done") replay=$same seconds=$(($(date +%s) - start))"
[ $verdict = ok ]
