#!/usr/bin/env bash
# Learns models of tests/shadow_scripts/learned.py afresh at three small batches, plans them at batch 64, and compares with
# PyTorch under `gpuplan shadow` at batch 64: requested bytes exactly, allocated and reserved within 0.2 %. gpt2, a minute;
# also resnet50, t5_small and gpt2 by batch and length where GPUPLAN_TORCH is "all". GPUPLAN names the program.
set -euo pipefail
cd "$(dirname "$0")/../.."
source tests/torch/python.bash
gpuplan=$(realpath "${GPUPLAN:-build/gpuplan}")
python_with 215 || { echo "$reason"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
PATH=$(cd "$(dirname "$python")" && pwd):$PATH

# learned NAME VARY... : learns, and compares at batch 64.
learned() {
  local name=$1 vary=() text length=()
  shift
  for text in "$@"; do
    vary+=(--vary "$text")
    [[ $text != seq=* ]] || length=(--seq 512)
  done
  "$gpuplan" shadow --gpu h200 --learn "$work/$name.trace" "${vary[@]}" -- python tests/shadow_scripts/learned.py "$name" \
    --batch '{batch}' ${length:+--seq '{seq}'} >"$work/log" 2>&1 || { cat "$work/log"; return 1; }
  "$gpuplan" shadow --gpu h200 --steps 3 --format json -- python tests/shadow_scripts/learned.py "$name" --batch 64 \
    "${length[@]}" >"$work/run.json" 2>"$work/log" || { cat "$work/log"; return 1; }
  "$gpuplan" plan "$work/$name.trace" -q --batch 64 "${length[@]}" --format json >"$work/plan.json"
  python tests/learned/compare.py "$name" "$work/plan.json" "$work/run.json"
}

learned gpt2 batch=4,8,12
if [ "${GPUPLAN_TORCH:-small}" = all ]; then
  learned resnet50 batch=4,8,12
  learned t5_small batch=4,8,12
  learned gpt2 batch=2,4,6 seq=64,128,192,256
fi
