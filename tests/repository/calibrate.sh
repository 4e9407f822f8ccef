#!/usr/bin/env bash
# gpuplan calibrate with the CUDA module: under `gpuplan shadow` every operation is accepted and no time is written; without
# a GPU it says so. On a machine with a GPU the file it writes is one that --gpu reads.
set -uo pipefail
cd "$(dirname "$0")/../.."
source tests/cuda/module.bash
build_module

for gpu in t4 a100-40gb h200; do
  expect 0 'accepted [0-9]+ operations' "$gpuplan" shadow --gpu "$gpu" -q -- "$gpuplan" calibrate --dry-run
done
expect 4 'this GPU is simulated, so there are no times to measure' \
  "$gpuplan" shadow --gpu t4 -q -- "$gpuplan" calibrate --quick -o "$work/gpu.yaml"
[ ! -e "$work/gpu.yaml" ] || fail "a file was written under the shadow runtime"
expect 2 'expects a whole number|--seconds' "$gpuplan" calibrate --seconds 0
expect 2 'dry-run' "$gpuplan" calibrate --dry-run -o "$work/gpu.yaml"

if nvidia-smi >/dev/null 2>&1; then
  expect 0 'matrix products' "$gpuplan" calibrate --quick -o "$work/gpu.yaml"
  expect 0 'Peak' "$gpuplan" zoo:resnet50 --batch 8 --gpu "$work/gpu.yaml"
else
  expect 4 'no GPU' "$gpuplan" calibrate --quick -o "$work/gpu.yaml"
fi
exit $status
