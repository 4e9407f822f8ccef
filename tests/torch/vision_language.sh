#!/usr/bin/env bash
# Vision-language models (vision_language_models.py): exported with both towers, their plans equal PyTorch's steps in training and inference
# with a text that has as many tokens of the image as it has features. With GPUPLAN_TORCH=all every model, also under autocast. GPUPLAN
# names the program; the interpreter is python.bash's.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
source tests/torch/python.bash
python_with 215 || { echo "transformers: $reason"; exit 77; }
GPUPLAN=$(realpath "${GPUPLAN:-build/gpuplan}")
work=$(realpath "$(mktemp -d)")
trap 'rm -rf "$work"' EXIT
export GPUPLAN GPUPLAN_PYTHON XDG_CACHE_HOME=$work/cache HF_HUB_OFFLINE=1
GPUPLAN_PYTHON=$(realpath -s "$python")
passed=0 failed=0
equal() { # MODEL FLAGS...
  "$GPUPLAN" "tests/torch/vision_language_models.py:$1" --input input_ids:int64:96 --input pixel_values:3x56x56 --input labels=input_ids --batch 5 --no-learn "${@:2}" \
    >"$work/out" 2>&1
  if grep -q '^  Verified  *equal to PyTorch 2.15' "$work/out" && ! grep -q '^warning: not equal' "$work/out"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL  $*"; tail -n 12 "$work/out"; fi
}
equal llava
if [ "${GPUPLAN_TORCH:-}" = all ]; then
  equal llava --amp bf16
  for model in paligemma gemma3 internvl llama4 blip2; do
    equal "$model"
    equal "$model" --amp bf16
  done
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
