#!/usr/bin/env bash
# The plan itself under `gpuplan shadow`: the CUDA module runs whole training loops on a GPU whose kernels do nothing.
#   gpuplan validate   every row of memory is the one that the plan says, to the byte
#   gpuplan_events     segments, blocks and operations come and go in the plan's order, in its sizes and at its places;
#                      every launch is within CUDA's limits and is given memory of its own operands only
# Values, times, and what a kernel does with its pointers, need a GPU.
set -uo pipefail
cd "$(dirname "$0")/../.."
source tests/cuda/module.bash
build_module gpuplan_events
events=$PWD/build/gpuplan_events

shadow() {
  local gpu=$1
  shift
  "$gpuplan" shadow -q --gpu "$gpu" --launches "$work/launches.tsv" -o "$work/report.json" -- "$@" >"$work/out" 2>"$work/err"
}

# Each line: GPU, model, flags.
cases() {
  cat <<'END'
h200 zoo:resnet50 --batch 16 --opt adam
t4 zoo:resnet50 --batch 8 --opt sgd --layout nhwc --precision fp16
h200 zoo:mobilenet_v2 --batch 32 --opt sgd --layout nhwc --amp bf16
a100-80gb zoo:mobilenet_v2 --batch 16 --opt adamw
h200 zoo:gpt2 --batch 2 --seq 256 --opt adamw --amp bf16 --checkpoint block
h200 zoo:gpt2 --batch 2 --seq 256 --opt adamw --alloc-conf expandable_segments:True
t4 zoo:bert_base --batch 2 --opt adam
t4 zoo:resnet50 --batch 170 --opt adam
a100-80gb zoo:tinyllama_1b --set layers=4 --batch 1 --seq 256 --opt adamw --precision bf16 --clip-grad-norm
h200 zoo:resnet18 --batch 8 --opt sgd_momentum --amp fp16 --micro-batches 2 --clip-grad-norm
h200 zoo:tinyllama_1b --set layers=2 --batch 2 --seq 64 --opt adamw --precision bf16 --master fp32 --micro-batches 2
h200 zoo:tinyllama_1b --set layers=2 --batch 1 --seq 64 --opt adamw --amp bf16 --optimizer-in-backward
END
}
while read -r gpu model flags; do
  # shellcheck disable=SC2086
  shadow "$gpu" "$gpuplan" validate "$model" $flags --steps 3 --tolerance 0 -o "json:$work/validate.json" ||
    fail "validate $model $flags on $gpu"
  # The row of the whole process has an assumed context in it and does not count.
  python3 - "$work/validate.json" <<'EOF' || fail "every row of $model $flags on $gpu is the plan's, and nothing is unaccounted for"
import json, sys
v = json.load(open(sys.argv[1]))
counted = [row for row in v["rows"] if row["counts"]]
assert len(counted) >= 6 and all(row["error_bytes"] == 0 for row in counted), v["rows"]
assert v["unaccounted_bytes"] == 0, v["unaccounted_bytes"]
EOF
  # shellcheck disable=SC2086
  shadow "$gpu" "$events" "$model" $flags && echo "$model $flags on $gpu: $(cat "$work/out")" ||
    fail "the events of $model $flags on $gpu"
  # What fits only by giving the cache back has segments that go and come again.
  [ "$flags" != "--batch 170 --opt adam" ] || grep -qE ', [1-9][0-9]* of them freed' "$work/out" ||
    fail "segments are freed where memory is short"
done < <(cases)

# A batch that does not fit ends at the operation that the plan says, in both.
code=0
shadow t4 "$gpuplan" validate zoo:resnet50 --batch 512 --opt adam || code=$?
[ "$code" -eq 1 ] || fail "a batch too large for a T4: exit $code, not 1"
grep -q 'out of memory in step 1, forward of layer1\.1\.bn3' "$work/out" || fail "it says where memory ran out"
grep -q 'that were free: the same' "$work/out" || fail "the plan says the same"
shadow t4 "$events" zoo:resnet50 --batch 512 --opt adam || fail "the events until memory ran out"
grep -q 'until memory ran out' "$work/out" || fail "memory ran out"
exit $status
