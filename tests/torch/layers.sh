#!/usr/bin/env bash
# The worked example of every layer beside PyTorch's CUDA code under `gpuplan shadow`: parameters, output shape, saved
# bytes and multiply-adds. GPUPLAN names the program, beside which the tests' gpuplan_layer_examples is; the interpreter
# is python.bash's.
set -euo pipefail
cd "$(dirname "$0")/../.."
source tests/torch/python.bash
gpuplan=$(realpath "${GPUPLAN:-build/gpuplan}")
examples=$(dirname "$gpuplan")/gpuplan_layer_examples
[ -x "$examples" ] || { echo "no $examples: gpuplan was built without tests"; exit 77; }
python_with 215 || { echo "$reason"; exit 77; }
output=$(mktemp -d)
trap 'rm -rf "$output"' EXIT
"$examples" >"$output/examples.json"
"$gpuplan" shadow --gpu h200 -q -- "$python" tests/torch/layer_examples.py "$output/examples.json"
