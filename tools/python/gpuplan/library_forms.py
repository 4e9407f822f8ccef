"""What libraries call their configurations: the forms of weights that --weights names, and the adapters of --peft."""
from __future__ import annotations

import ast
import difflib
import inspect
import sys
from functools import partial
from typing import Any, Callable, Dict, Tuple

import torch

from gpuplan.errors import ExportError


def _four_bits(kind: str, double: bool, compute: torch.dtype) -> Tuple[str, Dict[str, Any]]:
    return "BitsAndBytesConfig", {"load_in_4bit": True, "bnb_4bit_quant_type": kind, "bnb_4bit_compute_dtype": compute, "bnb_4bit_use_double_quant": double}


def _torchao(name: str, arguments: Dict[str, Any], compute: torch.dtype) -> Tuple[str, Dict[str, Any]]:
    from torchao import quantization  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return "TorchAoConfig", {"quant_type": getattr(quantization, name)(**arguments)}


# transformers' configurations of --weights, and what they are given; `compute` is the type of the products.
FORMS: Dict[str, Callable[[torch.dtype], Tuple[str, Dict[str, Any]]]] = {
    "int8": lambda compute: ("BitsAndBytesConfig", {"load_in_8bit": True}),
    "int4:gptq": lambda compute: ("GPTQConfig", {"bits": 4, "group_size": 128}),
    "int4:awq": lambda compute: ("AwqConfig", {"bits": 4, "group_size": 128}),
    **{f"{kind}{double}": partial(_four_bits, kind, bool(double)) for kind in ("nf4", "fp4") for double in ("", ":double")},
    # int4 as PyTorch's own kernel packs it; torchao's usual packing needs another package.
    "int4:torchao": partial(_torchao, "Int4WeightOnlyConfig", {"int4_packing_format": "tile_packed_to_4d"}),
    "int8:torchao": partial(_torchao, "Int8WeightOnlyConfig", {}),
    "fp8:torchao": partial(_torchao, "Float8WeightOnlyConfig", {}),
}


def quantized(cls: Any, config: Any, weights: str, compute: torch.dtype, dtype: torch.dtype, trains: bool) -> Any:
    """A model of transformers with its weights in a form, loaded onto the GPU from a checkpoint. weights: of FORMS, or a configuration of
    transformers', HqqConfig(nbits=3). dtype: of what is not stored in the form."""
    import transformers
    from gpuplan.quantized_transformers import CHOSEN_ON_GPU, loaded

    if weights in FORMS:
        name, arguments = FORMS[weights](compute)
        form = made_with(getattr(transformers, name), arguments, f"--weights {weights}")
    else:
        kinds = {k: v for k, v in vars(transformers.utils.quantization_config).items() if k.endswith("Config") and isinstance(v, type)}
        form = called(weights, "--weights", "transformers", kinds, "HqqConfig(nbits=4, group_size=64)")
    if trains and getattr(form, "quant_method", None) in CHOSEN_ON_GPU and getattr(form, "backend", None) in (None, "auto"):
        form.backend = "auto_trainable"  # the kernels that are chosen else have no backward
    return loaded(cls, config, form, dtype)


def is_hqq(weights: str) -> bool:
    return weights.endswith(":hqq") or weights.startswith("BaseQuantizeConfig")


def quantized_by_hqq(model: Any, weights: str, compute: torch.dtype) -> Any:
    """By hqq itself, which moves each weight of a model on the host to the GPU and quantizes it there. weights: int4:hqq, int8:hqq or
    BaseQuantizeConfig(nbits=3, group_size=64)."""
    from hqq.core.quantize import BaseQuantizeConfig  # type: ignore[import-not-found, import-untyped, unused-ignore]
    from hqq.models.hf.base import AutoHQQHFModel  # type: ignore[import-not-found, import-untyped, unused-ignore]

    text = weights if weights.startswith("Base") else f"BaseQuantizeConfig(nbits={weights[3]}, group_size=64)"
    try:
        call = ast.parse(text, mode="eval").body
        assert isinstance(call, ast.Call)
        settings = BaseQuantizeConfig(**{str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords})
    except (AssertionError, SyntaxError, TypeError, ValueError) as e:
        raise ExportError(f"--weights {weights}: {e or 'expected BaseQuantizeConfig(nbits=4, group_size=64)'}")
    AutoHQQHFModel.quantize_model(model, settings, compute_dtype=compute, device="cuda")
    return model


def configuration(text: str, usual: Dict[str, Any]) -> Any:
    """Of IA3Config, PrefixTuningConfig(num_virtual_tokens=20) or prefix_tuning: a class of peft's, or the name of its kind."""
    import peft

    kinds = {kind.__name__: kind for kind in vars(peft).values() if isinstance(kind, type) and issubclass(kind, peft.PeftConfig)}
    return called(text, "--peft", "peft", kinds, "IA3Config or PrefixTuningConfig(num_virtual_tokens=20)", usual)


def settings_in(text: str, flags: Dict[str, str]) -> Dict[str, Any]:
    """Of trl-sft(packing=True) what is in parentheses. flags: settings that are given otherwise."""
    _, given, rest = text.partition("(")
    try:
        call = ast.parse(f"f({rest}" if given else "f()", mode="eval").body
        assert isinstance(call, ast.Call) and not call.args
        settings = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (AssertionError, SyntaxError, ValueError):
        raise ExportError(f"--like {text}: expected settings of the library's, as Python writes them: trl-sft(packing=True)")
    for key in settings:
        if key in flags:
            raise ExportError(f"--like {text}: {key} is " + (f"what {flags[key]} gives" if flags[key] else "the plan's: it takes three steps"))
    return settings


def called(text: str, flag: str, library: str, kinds: Dict[str, Any], example: str, usual: Dict[str, Any] = {}) -> Any:
    """What a text makes that calls a class by its name, with or without `Config`. Raises ExportError, with the library's own refusal."""
    try:
        call = ast.parse(text, mode="eval").body
        function = call.func if isinstance(call, ast.Call) and not call.args else call
        if not isinstance(function, ast.Name):
            raise ValueError
        arguments = {str(keyword.arg): _value(keyword.value) for keyword in getattr(call, "keywords", [])}
    except (SyntaxError, ValueError):
        raise ExportError(f"{flag} {text}: expected a configuration of {library}'s, such as {example}")
    short = {kind.lower().replace("config", ""): kind for kind in kinds}
    name = function.id
    found = kinds.get(name) or kinds.get(short.get(name.lower().replace("_", "").replace("-", ""), ""))
    if found is None:
        near = difflib.get_close_matches(name, [*kinds, *short], 1)
        version = getattr(sys.modules.get(library), "__version__", "")
        raise ExportError(f"{flag} {text}: {library} {version} has no {name}" + (f": did you mean {near[0]}?" if near else ""))
    return made_with(found, {**usual, **arguments}, f"{flag} {text}")


def _value(node: ast.expr) -> Any:
    """A literal, or a configuration of torchao's, as TorchAoConfig takes one."""
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    from torchao import quantization  # type: ignore[import-not-found, import-untyped, unused-ignore]

    kind = getattr(quantization, getattr(node.func, "id", ""), None)
    if not isinstance(kind, type) or node.args:
        raise ValueError
    return kind(**{str(keyword.arg): _value(keyword.value) for keyword in node.keywords})


def made_with(kind: Any, arguments: Dict[str, Any], what: str) -> Any:
    try:
        taken = dict(inspect.signature(kind).parameters)
    except (TypeError, ValueError):  # of a class in C
        taken = {}
    if taken and not any(p.kind is p.VAR_KEYWORD for p in taken.values()):
        for name in arguments:
            if name not in taken:
                near = difflib.get_close_matches(name, taken, 1)
                raise ExportError(f"{what}: there is no setting {name}" + (f": did you mean {near[0]}?" if near else ""))
    try:
        return kind(**arguments)
    except (TypeError, ValueError, ImportError) as refusal:
        raise ExportError(f"{what}: {refusal}")
