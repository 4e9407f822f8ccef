#!/usr/bin/env bash
# gpuplan calibrate with the CUDA module: under `gpuplan shadow` every operation is accepted and no time is written; without
# a GPU it says so. On a machine with a GPU the file it writes is one that --gpu reads.
set -uo pipefail
cd "$(dirname "$0")/../.."
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null) || { echo "no nvcc, which the module is compiled with"; exit 77; }
toolkit=$(dirname "$(dirname "$(realpath "$nvcc")")")
ls "$toolkit"/include/{cublasLt,cudnn}.h >/dev/null 2>&1 || { echo "no cuBLASLt or cuDNN"; exit 77; }
tools/build release gpuplan gpuplan_cuda || exit 1
gpuplan=$PWD/build/gpuplan
export LD_LIBRARY_PATH=$toolkit/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

fail() {
  echo "FAIL  $1"
  cat "$work/out" "$work/err"
  status=1
}
# expect CODE PATTERN COMMAND...: the pattern is in what the command prints.
expect() {
  local code=$1 pattern=$2 actual=0
  shift 2
  "$@" >"$work/out" 2>"$work/err" </dev/null || actual=$?
  [ "$actual" -eq "$code" ] || fail "$*: exit $actual, not $code"
  cat "$work/out" "$work/err" | grep -qE -- "$pattern" || fail "$*: no '$pattern'"
}

for gpu in t4 a100-40gb h200; do
  expect 0 'accepted [0-9]+ operations' "$gpuplan" shadow --gpu "$gpu" -q -- "$gpuplan" calibrate --dry-run
done
expect 4 'kernels do nothing here: times need a GPU' \
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
