#!/usr/bin/env bash
# What transformers builds of tests/huggingface/*.json, on the meta device, beside the recorded counts of parameters and
# buffers: equal to the unit.
set -euo pipefail
cd "$(dirname "$0")/../.."
source tests/torch/python.bash
if ! python_with 215; then
  echo "$reason"
  exit 77
fi
"$python" tests/recorders/hugging_face_parameters.py 2>/dev/null | diff tests/huggingface/parameters.tsv -
echo "$(grep -vc -e '^#' -e '^model' tests/huggingface/parameters.tsv) models have the recorded parameters"
