#!/usr/bin/env bash
# Models of operators that have no layer (recorded_models.py): exported with what a simulated GPU recorded of each, their plans equal
# PyTorch's steps in training and inference. With GPUPLAN_TORCH=all every model, and under autocast, in bf16 and channels-last. GPUPLAN
# names the program; the interpreter is python.bash's.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
source tests/torch/python.bash
python_with 215 || { echo "torch 2.15: $reason"; exit 77; }
GPUPLAN=$(realpath "${GPUPLAN:-build/gpuplan}")
work=$(realpath "$(mktemp -d)")
trap 'rm -rf "$work"' EXIT
export GPUPLAN GPUPLAN_PYTHON XDG_CACHE_HOME=$work/cache
GPUPLAN_PYTHON=$(realpath -s "$python")
passed=0 failed=0
equal() { # MODEL SHAPE FLAGS...
  "$GPUPLAN" "tests/torch/recorded_models.py:$1" --input "$2" --batch 5 --no-learn "${@:3}" >"$work/out" 2>&1
  if grep -q '^  Verified  *equal to PyTorch 2.15' "$work/out"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL  $*"; cat "$work/out"; fi
}
if [ "${GPUPLAN_TORCH:-}" != all ]; then
  equal Volumes 3x16x16x16
  equal Turned 12x16 --amp bf16
  equal Distilled 12x16
else
  equal Volumes 3x16x16x16
  equal Volumes 3x16x16x16 --amp bf16
  equal Volumes 3x16x16x16 --precision bf16
  equal Volumes 3x16x16x16 --gpu h100 # recorded there
  for model in Sequences:8x64 Images:3x24x24 Pairs:12x16 Orders:12x16 Turned:12x16 Distilled:12x16; do
    for flags in '' '--amp bf16' '--amp fp16' '--precision bf16' '--layout nhwc'; do
      [ "$model $flags" = 'Pairs:12x16 --precision bf16' ] && continue # PyTorch's cdist does not take it
      # shellcheck disable=SC2086
      equal "${model%%:*}" "${model##*:}" $flags
    done
  done
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
