"""Models of transformers whose configuration says how their weights are stored (`quantization_config`)."""
from __future__ import annotations

import copy
import tempfile
from typing import Any

import torch
from torch import nn

from gpuplan.errors import ExportError
from gpuplan.source_lines import first_line
from gpuplan.stored import is_stored, taken_apart

WHEN_MOVED = ("bitsandbytes", "torchao")  # what takes its form on the GPU; others are made in it, for a checkpoint's tensors
CHOSEN_ON_GPU = ("gptq", "awq")  # whose kernel the card decides


def method_of(config: Any) -> str:
    """Of the library that stores the weights, as quantization_config names it; empty: none does."""
    given = getattr(config, "quantization_config", None)
    if not given:
        return ""
    named = given.get("quant_method") if isinstance(given, dict) else getattr(given, "quant_method", None)
    return str(getattr(named, "value", named) or "a library")


def made_of(cls: Any, config: Any) -> nn.Module:
    """A model of a class of transformers, its linear modules those of the library that stores them, as from_pretrained() replaces them.
    Raises ExportError."""
    method = method_of(config)
    if method in CHOSEN_ON_GPU:
        if not torch.cuda.is_available():
            raise ExportError(f"its weights are stored by {method}, whose kernels are chosen on the GPU")
        return loaded(cls, config, config.quantization_config, getattr(config, "dtype", None) or torch.float16)
    model: nn.Module = cls.from_config(config) if cls.__name__.startswith("Auto") else cls(config)
    return in_its_form(model, config)


def loaded(cls: Any, config: Any, quantization: Any, dtype: torch.dtype) -> nn.Module:
    """What from_pretrained() makes on the GPU of a checkpoint of such a model, which is quantized as it is read, or has been."""
    from gpuplan.checkpoints import write_checkpoint
    from transformers.quantizers.auto import AutoHfQuantizer

    config = copy.deepcopy(config)
    config.quantization_config = quantization
    method = method_of(config)
    has_been = method in CHOSEN_ON_GPU
    if not has_been:
        del config.quantization_config
    try:
        with tempfile.TemporaryDirectory() as folder:
            write_checkpoint(folder, cls, config, dtype, AutoHfQuantizer.from_config(quantization, pre_quantized=True) if has_been else None)
            given = {} if has_been else {"quantization_config": quantization}
            model: nn.Module = cls.from_pretrained(folder, **given, dtype=dtype, device_map={"": 0}, use_safetensors=True)
            return model
    except (ImportError, ValueError, RuntimeError, OSError) as e:
        way_on = " --weights int4:hqq and 'BaseQuantizeConfig(nbits=3, group_size=64)' run hqq itself" if method == "hqq" else ""
        raise ExportError(f"transformers does not load weights that are stored by {method} here: {type(e).__name__}: {first_line(e)}{way_on}") from e


def in_its_form(model: nn.Module, config: Any) -> nn.Module:
    """Its linear modules as those of the library that stores them, as from_pretrained() replaces them. Raises ExportError."""
    method = method_of(config)
    if not method:
        return model
    from transformers.quantizers.auto import AutoHfQuantizer

    given = config.quantization_config
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
