#!/usr/bin/env bash
# ONNX files that torch.onnx writes here, with their weights: parameters and multiply-adds are PyTorch's. GPUPLAN names the
# program; the interpreter is that of python.bash with transformers 4.46.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
source tests/torch/python.bash
gpuplan=$(realpath "${GPUPLAN:-build/gpuplan}")
if "$gpuplan" import tests/onnx/alexnet.onnx 2>&1 | grep -q 'built without'; then
  echo "gpuplan is built without ONNX"
  exit 77
fi
python_with 24 || { echo "torch 2.4: $reason"; exit 77; }
"$python" -c 'import torchvision, transformers' 2>/dev/null || { echo "no torchvision or transformers beside torch 2.4"; exit 77; }
if [ "${GPUPLAN_TORCH:-small}" = all ]; then
  # All but those of the newer exporter, which needs onnxscript.
  mapfile -t names < <(tail -n +3 tests/onnx/expected.tsv | cut -f1 | grep -v dynamo)
else
  names=(alexnet resnet18_train mobilenet_v3_train vit segmenter recurrent gpt2)
fi
"$python" tests/recorders/onnx_models.py check "$gpuplan" "${names[@]}"
