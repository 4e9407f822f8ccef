#!/usr/bin/env bash
# Models that bitsandbytes and torchao store in forms of their own (quantized_models.py), with peft's adapters and checkpoints: exported as
# a simulated GPU ran their modules, their plans equal PyTorch's steps in training and inference. With GPUPLAN_TORCH=all every model, also
# under autocast, and one in bf16.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
source tests/torch/verified.bash
verified_with quantized
models=tests/torch/quantized_models.py
net() { equal "$models:$1" "--input 600x64 $2" "${@:3}"; } # MODEL ARGUMENTS FLAGS...
llama() { equal "$models:llama" "--input input_ids:int64:256 --input labels=input_ids $1" "${@:2}"; }
if [ "${GPUPLAN_TORCH:-}" != all ]; then
  llama '--arg checkpoint=True' --amp bf16
else
  for flags in '' '--amp bf16'; do
    # shellcheck disable=SC2086
    {
      net bitsandbytes_4bit '' $flags
      net bitsandbytes_4bit '--arg kind=fp4 --arg twice=False' $flags
      net bitsandbytes_8bit '' $flags
      net bitsandbytes_8bit '--arg threshold=0.0' $flags
      net torchao_stored '--arg kind=Float8WeightOnlyConfig' $flags
      net torchao_stored '--arg kind=Int8DynamicActivationInt8WeightConfig' $flags
      llama '' $flags
      llama '--arg kind=8bit' $flags
      llama '--arg checkpoint=True' $flags
    }
  done
  net bitsandbytes_4bit '' --precision bf16
fi
verified
