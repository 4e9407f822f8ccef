#!/usr/bin/env bash
# Networks of diffusers (diffusion_models.py): plans of their exports equal PyTorch's steps in training and inference. With GPUPLAN_TORCH=all
# every network, also under autocast.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
source tests/torch/verified.bash
verified_with 215
model() { # MODEL INPUTS FLAGS...
  equal "tests/torch/diffusion_models.py:$1" "--input ${2// / --input }" "${@:3}"
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
    }
  done
fi
verified
