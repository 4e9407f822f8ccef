#!/usr/bin/env bash
# Models of operators that have no layer (recorded_models.py), exported as a simulated GPU ran them: their plans equal PyTorch's steps. With
# GPUPLAN_TORCH=all every model, in every type.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
source tests/torch/verified.bash
verified_with 215
model() { equal "tests/torch/recorded_models.py:$1" "--input $2" "${@:3}"; } # MODEL SHAPE FLAGS...
model Volumes 3x16x16x16
if [ "${GPUPLAN_TORCH:-}" != all ]; then
  model Turned 12x16 --amp bf16
  model Distilled 12x16
else
  model Volumes 3x16x16x16 --amp bf16
  model Volumes 3x16x16x16 --precision bf16
  model Volumes 3x16x16x16 --gpu h100 # recorded there
  for named in Sequences:8x64 Images:3x24x24 Pairs:12x16 Orders:12x16 Turned:12x16 Distilled:12x16; do
    for flags in '' '--amp bf16' '--amp fp16' '--precision bf16' '--layout nhwc'; do
      [ "$named $flags" = 'Pairs:12x16 --precision bf16' ] && continue # PyTorch's cdist does not take it
      # shellcheck disable=SC2086
      model "${named%%:*}" "${named##*:}" $flags
    done
  done
fi
verified
