#!/usr/bin/env bash
# ONNX files that torch.onnx writes here, with their weights: parameters and multiply-adds are PyTorch's. GPUPLAN names the
# program; the interpreters are those of python.bash, with transformers 4.46 and with the newest.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
source tests/torch/python.bash
gpuplan=$(realpath "${GPUPLAN:-build/gpuplan}")
if "$gpuplan" import tests/onnx/alexnet.onnx 2>&1 | grep 'built without' >/dev/null; then
  echo "gpuplan is built without ONNX"
  exit 77
fi
status=0
ran=0
if ! python_with 24; then
  echo "torch 2.4: $reason"
elif ! "$python" -c 'import torchvision, transformers' 2>/dev/null; then
  echo "no torchvision or transformers beside torch 2.4"
else
  if [ "${GPUPLAN_TORCH:-small}" = all ]; then
    # All but those of the newer exporter, which needs onnxscript.
    mapfile -t names < <(tail -n +3 tests/onnx/expected.tsv | cut -f1 | grep -v dynamo)
  else
    names=(alexnet resnet18_train mobilenet_v3_train vit segmenter branches recurrent gpt2)
  fi
  "$python" tests/recorders/onnx_models.py check "$gpuplan" "${names[@]}" || status=1
  ran=1
fi
# Its results so far are in onnx_results.tsv.
check() {
  local results
  results=$(mktemp -d)
  "$python" tests/torch/onnx_check.py --gpuplan "$gpuplan" --results "$results" "$@" || status=1
  rm -rf "$results"
}
if ! python_with 215; then
  echo "torch 2.15: $reason"
elif ! "$python" -c 'import onnx, onnxscript, torchvision, transformers' 2>/dev/null; then
  echo "no onnx, onnxscript, torchvision or transformers beside torch 2.15"
elif [ "${GPUPLAN_TORCH:-small}" = all ]; then
  check --exporter dynamo torchvision segmentation backbone hf timm
  check --exporter script torchvision segmentation backbone hf
  check --exporter folded hf
  ran=1
else
  "$python" tests/recorders/onnx_models.py check "$gpuplan" branches resnet18_dynamo vit_dynamo || status=1
  check --exporter dynamo hf:bert hf:llama hf:gpt2 torchvision:mobilenet_v3_small
  check --exporter script hf:t5 hf:roberta torchvision:swin_v2_t
  check --exporter folded hf:t5 hf:roberta
  ran=1
fi
[ "$ran" = 1 ] || exit 77
exit "$status"
