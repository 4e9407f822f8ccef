#!/usr/bin/env bash
# tools/add_reading: a run is added with what names a person taken out, and refused where it is no judge; the readings that are
# there replay to every address. GPUPLAN is the binary.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
GPUPLAN=$(realpath "${GPUPLAN:-build/gpuplan}")
export GPUPLAN
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GPUPLAN_READINGS=$work/readings HOME=$work/somebody
status=0
fail() {
  echo "FAIL  $1"
  status=1
}
read_rows() { tail -n +2 "$1/readings.tsv" | cut -f 1; }
for name in $(read_rows tests/readings); do
  gzip -dc "tests/readings/$name.pickle.gz" >"$work/$name.pickle" || fail "$name.pickle.gz"
  "$GPUPLAN" replay "$work/$name.pickle" --check >"$work/out" 2>&1 || fail "$name: $(tail -n 3 "$work/out")"
  peaks=$("$GPUPLAN" snapshot "$work/$name.pickle" --format json 2>"$work/errors" |
    python3 -c 'import json, sys; p = json.load(sys.stdin)["devices"][0]["peak"]; print(p["requested_bytes"], p["allocated_bytes"], p["reserved_bytes"], sep="\t")')
  grep -qF "	$peaks	" tests/readings/readings.tsv || fail "$name: readings.tsv has other peaks than its snapshot, $peaks"
done
printf 'data = "%s/data/images", "/scratch/mine/more"  # somebody keeps them there\n' "$HOME" >"$work/train.py"
added=$(tools/add_reading tests/snapshots/leak-2.15.pickle "$work/train.py" mine --scrub --from 'a test' -- zoo:resnet18 -b 4 2>"$work/errors") ||
  fail "not added: $(cat "$work/errors")"
grep -q 'measured .* planned .* difference' <<<"$added" || fail "it does not say how far the plan is off: $added"
! grep -rqE 'somebody|scratch' "$work/readings" || fail "a name is still there: $(cat "$work/readings/mine.py")"
[ "$(read_rows "$work/readings")" = mine ] || fail 'no line in readings.tsv'
gzip -dc "$work/readings/mine.pickle.gz" >"$work/mine.pickle"
"$GPUPLAN" replay "$work/mine.pickle" --check >"$work/out" 2>&1 || fail 'what was added does not replay'
refused() { # WORDS ARGUMENTS...
  local words=$1
  shift
  tools/add_reading "$@" >"$work/out" 2>&1 && fail "$*: not refused"
  grep -qe "$words" "$work/out" || fail "$*: no '$words' in $(cat "$work/out")"
}
refused 'has mine already' tests/snapshots/leak-2.15.pickle "$work/train.py" mine --scrub -- zoo:resnet18 -b 4
refused 'scrub takes them out' tests/snapshots/leak-2.15.pickle "$work/train.py" other -- zoo:resnet18 -b 4
refused 'its history is not whole' tests/snapshots/cut-2.15.pickle "$work/train.py" other --scrub -- zoo:resnet18 -b 4
refused 'PLAN FLAGS' tests/snapshots/leak-2.15.pickle "$work/train.py" other
refused "is a file's name" tests/snapshots/leak-2.15.pickle "$work/train.py" ../other --scrub -- zoo:resnet18
refused 'no such file' tests/snapshots/leak-2.15.pickle "$work/none.py" other --scrub -- zoo:resnet18
refused 'batch' tests/snapshots/leak-2.15.pickle "$work/train.py" other --scrub -- zoo:resnet18 --bach 4
exit "$status"
