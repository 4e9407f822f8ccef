#!/usr/bin/env bash
# Compiled training steps under `gpuplan shadow`, equal to the byte with tests/shadow_compiled/compiled.h100.torch2.15.tsv:
# three of them, every one where GPUPLAN_TORCH is "all". GPUPLAN names the program.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
source tests/torch/python.bash
python_with 215 || { echo "$reason"; exit 77; }
cases=(gpt.default.bf16 mlp.reduce-overhead.fp32 mlp.max-autotune.bf16)
[ "${GPUPLAN_TORCH:-small}" != all ] || cases=()
exec "$python" tests/shadow_compiled/record.py --gpuplan "${GPUPLAN:-build/gpuplan}" "${cases[@]}"
