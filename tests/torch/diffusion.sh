#!/usr/bin/env bash
# Networks of diffusers (diffusion_models.py): plans of their exports equal PyTorch's steps in training and inference. With GPUPLAN_TORCH=all
# every network.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
source tests/torch/verified.bash
verified_with 215
model() { # MODEL INPUTS
  equal "tests/torch/diffusion_models.py:$1" "--input ${2// / --input }"
}
if [ "${GPUPLAN_TORCH:-}" != all ]; then
  model DiT '4x16x16 int64 int64'
else
  model StableDiffusion '4x32x32 int64 16x64'
  model StableDiffusionXL '4x32x32 int64 16x64 64 6'
  model StableDiffusion3 '16x32x32 int64 12x96 48'
  model Flux '64x64 12x96 48 float32 float32'
  model DiT '4x16x16 int64 int64'
  model PixArt '4x16x16 12x48 int64'
  model ControlNet '4x32x32 int64 16x64 3x64x64'
  model Autoencoder 3x32x32
fi
verified
