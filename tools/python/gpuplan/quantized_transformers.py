"""Models of transformers whose configuration says how their weights are stored (`quantization_config`)."""
from __future__ import annotations

from typing import Any

import torch
from torch import nn

from gpuplan.errors import ExportError
from gpuplan.source_lines import first_line
from gpuplan.stored import is_stored, taken_apart

WHEN_MOVED = ("bitsandbytes", "torchao")  # what takes its form on the GPU; others are made in it, for a checkpoint's tensors


def in_its_form(model: nn.Module, config: Any) -> nn.Module:
    """Its linear modules as those of the library that stores them, as from_pretrained() replaces them. Raises ExportError."""
    given = getattr(config, "quantization_config", None)
    if not given:
        return model
    from transformers.quantizers import AutoHfQuantizer

    named = given.get("quant_method") if isinstance(given, dict) else getattr(given, "quant_method", None)
    method = str(getattr(named, "value", named) or "a library")
    try:
        quantizer = AutoHfQuantizer.from_config(given, pre_quantized=method not in WHEN_MOVED)
        quantizer.preprocess_model(model, device_map=None)
    except Exception as e:  # a library that is not installed, a form that this release does not know
        raise ExportError(f"its weights are stored by {method}, and transformers does not make such a model here: "
                          f"{first_line(e)}. Without quantization_config the model is planned as it was before it was quantized") from e
    for path, module in list(model.named_modules()):
        if is_stored(module) and any(t.is_meta for t in module.parameters()):
            stored, tensors = taken_apart(module)  # made without data, for a checkpoint's
            model.set_submodule(path, stored.around([torch.empty_strided(t.shape, t.stride(), dtype=t.dtype) for t in tensors]))
    return model
