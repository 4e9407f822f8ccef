#!/usr/bin/env bash
# Networks of diffusers (diffusion_models.py): plans of their exports equal PyTorch's steps in training and inference; and LoRA of SDXL and
# FLUX (diffusion_lora.py), with cached texts and latents, and with the models that make them. With GPUPLAN_TORCH=all every network, also
# under autocast.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
source tests/torch/verified.bash
verified_with 215
model() { # MODEL INPUTS FLAGS...
  equal "tests/torch/diffusion_models.py:$1" "--input ${2// / --input }" "${@:3}"
}
lora() { # MODEL INPUTS FLAGS...: inputs may end with --arg
  local inputs=${2%% --arg*} arguments=
  [ "$inputs" = "$2" ] || arguments=${2#"$inputs"}
  equal "tests/torch/diffusion_lora.py:$1" "--input ${inputs// / --input }$arguments" "${@:3}"
}
if [ "${GPUPLAN_TORCH:-}" != all ]; then
  model DiT '4x16x16 int64 int64'
else
  for flags in '' '--amp bf16'; do
    # shellcheck disable=SC2086
    {
      model StableDiffusion '4x32x32 int64 16x64' $flags
      model StableDiffusionXL '4x32x32 int64 16x64 64 6' $flags
      model StableDiffusion3 '16x32x32 int64 12x96 48' $flags
      model Flux '64x64 12x96 48 float32 float32' $flags
      model DiT '4x16x16 int64 int64' $flags
      model PixArt '4x16x16 12x48 int64' $flags
      model ControlNet '4x32x32 int64 16x64 3x64x64' $flags
      model Autoencoder 3x32x32 $flags
      lora FluxLora '4x16x16 12x96 48 float32' $flags
      lora FluxLora '3x32x32 12:int64 float32 --arg live=True' $flags
    }
  done
  lora XLLora '4x32x32 16x64 64 int64 6' # under autocast 2 MiB of 232 are reserved that PyTorch does not reserve
  lora XLLora '3x64x64 16:int64 int64 6 --arg live=True'
fi
verified
