#!/usr/bin/env bash
# The zoo's specs beside torchvision's models, in a virtual environment of its own under build-torch/: PyTorch, torchvision
# and PyYAML for the CPU. A sample of the models; all of them where GPUPLAN_TORCH is "all".
set -euo pipefail
cd "$(dirname "$0")/../.."
environment=build-torch
python=$environment/bin/python

if ! "$python" -c 'import torch, torchvision, yaml' 2>/dev/null; then
  if ! { python3 -m venv "$environment" &&
    "$python" -m pip install --quiet pyyaml &&
    { "$python" -m pip install --quiet --retries 1 torch torchvision --index-url https://download.pytorch.org/whl/cpu ||
      "$python" -m pip install --quiet torch torchvision; }; }; then
    echo "pip cannot install torch, torchvision and pyyaml here"
    exit 77
  fi
fi

models=()
if [ "${GPUPLAN_TORCH:-small}" != all ]; then
  for name in alexnet resnet18 mobilenet_v3_large shufflenet_v2_x1_0 densenet121; do
    models+=("configs/models/$name.yaml")
  done
fi
"$python" tests/zoo/compare_with_torchvision.py "${models[@]}"
