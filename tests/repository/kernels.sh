#!/usr/bin/env bash
# The values of the CUDA kernels without a GPU (tests/cuda/emulation/README.md): every operation of the module, compiled
# as C++ and run on the processor with sanitizers, beside the host device's in double. On this machine's GPU too, where
# there is one.
set -uo pipefail
cd "$(dirname "$0")/../.."
build=${GPUPLAN_INSTRUMENTED:-$PWD/build-test}
preset=${build##*/build-}
tools/build "$preset" gpuplan_kernels || exit 1
[ -x "$build/gpuplan_kernels" ] || { echo "no headers of CUDA, cuBLASLt and cuDNN"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
parts=(operations)
if [ -n "${GPUPLAN_ALL:-}" ]; then
  parts+=(cases executions)
else
  echo "skip  cases and executions, asked for with tools/test --all"
fi

# compare MODULE: its parts side by side.
compare() {
  local part
  for part in "${parts[@]}"; do
    { "$build/gpuplan_kernels" "$1" "$part" >"$work/$part" 2>&1; echo $? >"$work/$part.status"; } &
  done
  wait
  for part in "${parts[@]}"; do
    tail -n 1 "$work/$part"
    [ "$(cat "$work/$part.status")" = 0 ] && continue
    echo "FAIL  $part of $1"
    grep -v '^ok' "$work/$part"
    status=1
  done
}

compare "$build/libgpuplan_emulated_cuda.so"
if nvidia-smi >/dev/null 2>&1 && tools/build release gpuplan_cuda && [ -f build/libgpuplan_cuda.so ]; then
  LD_LIBRARY_PATH=/usr/local/cuda/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} compare "$PWD/build/libgpuplan_cuda.so"
fi
exit $status
