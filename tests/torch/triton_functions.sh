#!/usr/bin/env bash
# Models with custom functions that launch Triton kernels (triton_models.py): exported without launching any, their plans equal PyTorch's
# steps on a simulated GPU, where gradients lie in what the forward left.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
source tests/torch/verified.bash
verified_with 215
for kind in gated turned fused; do
  equal "tests/torch/triton_models.py:net" "--input 128x64 --arg kind=$kind"
done
verified
