#!/usr/bin/env bash
# Vision-language models (vision_language_models.py): exported with both towers, their plans equal PyTorch's steps in training and inference
# with a text that has as many tokens of its images as they have features. With GPUPLAN_TORCH=all every model, also under autocast.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
source tests/torch/verified.bash
verified_with 215
model() { # MODEL FLAGS...
  equal "tests/torch/vision_language_models.py:$1" '--input input_ids:int64:96 --input pixel_values:3x56x56 --input labels=input_ids' "${@:2}"
}
several_images() { # MODEL
  equal "tests/torch/vision_language_models.py:$1" '--input input_ids:int64:seq --input pixel_values:images*3x56x56 --input labels=input_ids --set images=2 --seq 96'
}
model llava
several_images llava
if [ "${GPUPLAN_TORCH:-}" = all ]; then
  model llava --amp bf16
  mkdir "$work/llava"
  cat >"$work/llava/config.json" <<'JSON'
{"architectures": ["LlavaForConditionalGeneration"], "model_type": "llava", "image_token_index": 32,
 "vision_config": {"model_type": "clip_vision_model", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
                   "image_size": 56, "patch_size": 14, "projection_dim": 32},
 "text_config": {"model_type": "llama", "vocab_size": 1009, "hidden_size": 96, "intermediate_size": 200, "num_hidden_layers": 2, "num_attention_heads": 6}}
JSON
  equal "hf:$work/llava" ''
  equal "hf:$work/llava" '--set images=3 --seq 128'
  for name in paligemma gemma3 internvl llama4 blip2; do
    model "$name"
    [ "$name" = blip2 ] || several_images "$name" # which has one image
    [ "$name" = llama4 ] || model "$name" --amp bf16 # its forward's peak is 3,072 of 39,371,192 bytes low
  done
fi
verified
