#!/usr/bin/env bash
# Models that bitsandbytes and torchao store in forms of their own (quantized_models.py), with peft's adapters and checkpoints: exported as
# a simulated GPU ran their modules, their plans equal PyTorch's steps in training and inference. With GPUPLAN_TORCH=all every model, also
# under autocast, and one in bf16. GPUPLAN names the program; the interpreter is python.bash's.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
source tests/torch/python.bash
python_with quantized || { echo "bitsandbytes: $reason"; exit 77; }
GPUPLAN=$(realpath "${GPUPLAN:-build/gpuplan}")
work=$(realpath "$(mktemp -d)")
trap 'rm -rf "$work"' EXIT
export GPUPLAN GPUPLAN_PYTHON XDG_CACHE_HOME=$work/cache HF_HUB_OFFLINE=1
GPUPLAN_PYTHON=$(realpath -s "$python")
passed=0 failed=0
equal() { # MODEL "ARGUMENTS" FLAGS...
  local arguments=()
  for argument in $2; do arguments+=(--arg "$argument"); done
  local inputs=(--input 600x64)
  [ "$1" = llama ] && inputs=(--input input_ids:int64:256 --input labels=input_ids)
  "$GPUPLAN" "tests/torch/quantized_models.py:$1" "${arguments[@]}" "${inputs[@]}" --batch 5 --no-learn "${@:3}" >"$work/out" 2>&1
  if grep -q '^  Verified  *equal to PyTorch 2.15' "$work/out" && ! grep -q '^warning: not equal' "$work/out"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL  $*"; tail -n 12 "$work/out"; fi
}
if [ "${GPUPLAN_TORCH:-}" != all ]; then
  equal llama 'checkpoint=True' --amp bf16
else
  for flags in '' '--amp bf16'; do
    # shellcheck disable=SC2086
    {
      equal bitsandbytes_4bit '' $flags
      equal bitsandbytes_4bit 'kind=fp4 twice=False' $flags
      equal bitsandbytes_8bit '' $flags
      equal bitsandbytes_8bit 'threshold=0.0' $flags
      equal torchao_stored 'kind=Float8WeightOnlyConfig' $flags
      equal torchao_stored 'kind=Int8DynamicActivationInt8WeightConfig' $flags
      equal llama '' $flags
      equal llama 'kind=8bit' $flags
      equal llama 'checkpoint=True' $flags
    }
  done
  equal bitsandbytes_4bit '' --precision bf16
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
