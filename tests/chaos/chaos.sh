#!/bin/sh
# chaos.sh OUT SECONDS SEED SCRIPT SET: tests/chaos/chaos.c with what the churn of a run costs in loss, as the simulator has it
# (tests/study_rounds.sh: three seeds, real text, kept for the next time).  In less than a minute that is left out.
out=$1 seconds=$2 seed=$3 gap=none
if [ "$seconds" -ge 60 ]; then
	said=$(tests/study_rounds.sh "$out" churn | tail -n 1)
	gap=$(printf '%s\n' "$said" | sed -n 's/^study: churn ok loss_gap=\(-*[0-9.]*\).*/\1/p')
	[ -n "$gap" ] || { echo "$said"; echo "chaos: failed: no loss_gap from the simulator"; exit 1; }
fi
SHOAL_BIN=$(cd "$out" && pwd) exec "$out/tests/chaos/chaos" "$seconds" "$seed" "build/chaos/$seed" "$4" "$5" "$gap"
