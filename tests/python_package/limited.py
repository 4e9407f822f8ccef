"""Run by tests/torch/python_package.sh: two tests of which the second takes more than it may."""

import pytest
import torch


@pytest.mark.limit_gpu_memory("64 MiB", gpu="l4")
def test_small():
    torch.nn.Linear(1000, 1000).cuda()


@pytest.mark.limit_gpu_memory("1 MiB", gpu="l4")
def test_large():
    torch.nn.Linear(1000, 1000).cuda()
