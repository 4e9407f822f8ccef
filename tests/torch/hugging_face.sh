#!/usr/bin/env bash
# What transformers builds of tests/huggingface/*.json, on the meta device, beside the recorded counts of parameters and
# buffers: equal to the unit. Steps of small models of tests/huggingface/steps under `gpuplan shadow` beside their plans: a
# sample, or all where GPUPLAN_TORCH is "all". GPUPLAN names the program.
set -euo pipefail
cd "$(dirname "$0")/../.."
source tests/torch/python.bash
if ! python_with 215; then
  echo "$reason"
  exit 77
fi
"$python" tests/recorders/hugging_face_parameters.py 2>/dev/null | diff tests/huggingface/parameters.tsv -
echo "$(grep -vc -e '^#' -e '^model' tests/huggingface/parameters.tsv) models have the recorded parameters"
gpuplan=$(realpath "${GPUPLAN:-build/gpuplan}")
names=(llama-samples bert-model qwen3-windows opt-350m-kind)
[ "${GPUPLAN_TORCH:-small}" != all ] || names=()
"$gpuplan" shadow --gpu h200 -q -- "$python" tests/recorders/hugging_face_steps.py --gpuplan "$gpuplan" "${names[@]}"
