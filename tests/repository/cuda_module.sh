#!/usr/bin/env bash
# Every operation of libgpuplan_cuda.so once, under `gpuplan shadow` and on this machine's GPU where there is one: the
# module accepts it, no CUDA call fails, and every launch is within the limits of CUDA's grids and blocks.
set -uo pipefail
cd "$(dirname "$0")/../.."
source tests/cuda/module.bash
build_module
module=$PWD/build/libgpuplan_cuda.so
${CXX:-c++} -std=c++20 -O1 -I. tests/cuda/module_*.cpp estimator/base/{error,dtype,utf8}.cpp -o "$work/program" -ldl \
  >"$work/compiler" 2>&1 || { cat "$work/compiler"; exit 1; }

for gpu in t4 a100-40gb h200; do
  "$gpuplan" shadow --gpu "$gpu" --launches "$work/launches.tsv" -o "$work/report.json" -- "$work/program" "$module" \
    >"$work/out" 2>"$work/err" || { fail "the operations on a shadow $gpu"; continue; }
  # x, y and z of grid and block; the threads of a block.
  awk -F'\t' -v gpu="$gpu" '
    match($0, /grid [0-9,]+ block [0-9,]+ shared [0-9]+/) {
      split(substr($0, RSTART, RLENGTH), word, " "); split(word[2], g, ","); split(word[4], b, ",")
      launches++
      if (g[1] > 2147483647 || g[2] > 65535 || g[3] > 65535 || b[1] * b[2] * b[3] > 1024 || b[3] > 64 ||
          g[1] * g[2] * g[3] * b[1] * b[2] * b[3] == 0 || word[6] > (gpu == "t4" ? 65536 : gpu == "h200" ? 232448 : 166912)) {
        print; beyond++
      }
    }
    END { print launches " launches on " gpu; exit beyond > 0 || launches < 500 }' "$work/launches.tsv" ||
    fail "every launch on $gpu is within its limits"
done

if nvidia-smi >/dev/null 2>&1; then
  "$work/program" "$module" >"$work/out" 2>"$work/err" || fail "the operations on this machine's GPU"
fi
exit $status
