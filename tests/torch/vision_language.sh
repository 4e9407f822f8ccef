#!/usr/bin/env bash
# Vision-language models (vision_language_models.py): exported with both towers, their plans equal PyTorch's steps in training and inference
# with a text that has as many tokens of the image as it has features. With GPUPLAN_TORCH=all every model, also under autocast.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
source tests/torch/verified.bash
verified_with 215
model() { # MODEL FLAGS...
  equal "tests/torch/vision_language_models.py:$1" '--input input_ids:int64:96 --input pixel_values:3x56x56 --input labels=input_ids' "${@:2}"
}
model llava
if [ "${GPUPLAN_TORCH:-}" = all ]; then
  model llava --amp bf16
  for name in paligemma gemma3 internvl llama4 blip2; do
    model "$name"
    model "$name" --amp bf16
  done
fi
verified
