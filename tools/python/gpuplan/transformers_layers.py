"""What of transformers is one layer of the catalog: modules, known by their names and their source, and masks. Its models
are Python code over the same calls of torch as others; recognised is what depends on the values of tensors (masks,
which a tensor without data cannot decide on), what other releases and attention implementations run differently
(--pytorch, --attention) and what reads better under its name."""
from __future__ import annotations

import inspect
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch import nn

from gpuplan.errors import ExportError
from gpuplan.source_lines import source_line, source_of


def transformers_layer(module: nn.Module) -> Optional[Tuple[str, List[Tuple[str, Any]]]]:
    """The layer that a module of transformers is, and its arguments."""
    name = type(module).__name__
    if type(module).__module__ == "transformers.activations":
        return activation_layer(module, name)
    if name.endswith("RMSNorm") or name == "T5LayerNorm":
        return norm_layer(module, name)
    if name.endswith("RotaryEmbedding"):
        return rotary_layer(module)
    if name == "MixtralSparseMoeBlock":
        gate_up = getattr(module.experts, "gate_up_proj", None)
        if not isinstance(gate_up, nn.Parameter) or getattr(module, "jitter_noise", 0):
            return None
        experts, twice, hidden = gate_up.shape
        return "MixtureOfExperts", [("", hidden), ("", twice // 2), ("", experts), ("", module.top_k)]
    if name.endswith("Experts"):
        return experts_layer(module)
    if name in ("OPTLearnedPositionalEmbedding", "WhisperPositionalEmbedding"):
        if name.startswith("OPT") and "position_ids" not in inspect.signature(module.forward).parameters:
            return None  # of transformers 4.38, which counts positions itself
        count, size = module.weight.shape
        return name, [("", count - getattr(module, "offset", 0)), ("", size)]
    if name == "GemmaTextScaledWordEmbedding":
        return name, [("", module.num_embeddings), ("", module.embedding_dim)]
    return None


def experts_layer(module: nn.Module) -> Optional[Tuple[str, List[Tuple[str, Any]]]]:
    """Experts that transformers runs as one grouped product a projection (integrations/moe.py): gate and up in one weight, with silu and
    without biases and norms of their own, or gpt-oss's."""
    if getattr(getattr(module, "config", None), "_experts_implementation", None) != "grouped_mm" or \
            any(getattr(module, name, None) is not value for name, value in (("has_gate", True), ("has_post_expert_norm", False))):
        return None
    weights = dict(module.named_parameters())
    layout = tuple(getattr(module, name, None) for name in ("has_bias", "is_transposed", "is_concatenated"))
    gate = source_of(getattr(type(module), "_apply_gate", None))
    if len({w.requires_grad for w in weights.values()}) > 1:
        return None
    if layout == (False, False, True) and list(weights) == ["gate_up_proj", "down_proj"] and \
            "gate, up = gate_up_out.chunk(2, dim=-1)" in gate and "return self.act_fn(gate) * up" in gate and \
            type(module.act_fn).__name__ in ("SiLU", "SiLUActivation"):
        experts, hidden, inner = weights["down_proj"].shape
        return "Experts", [("", hidden), ("", inner), ("", experts)]
    if layout == (True, True, False) and list(weights) == ["gate_up_proj", "gate_up_proj_bias", "down_proj", "down_proj_bias"] and \
            all(line in gate for line in GPT_OSS_GATE):
        experts, inner, hidden = weights["down_proj"].shape
        return "GptOssExperts", [("", hidden), ("", inner), ("", experts), ("alpha", float(module.alpha)), ("limit", float(module.limit))]
    return None


GPT_OSS_GATE = ("gate, up = gate_up[..., ::2], gate_up[..., 1::2]", "gate = gate.clamp(min=None, max=self.limit)",
                "up = up.clamp(min=-self.limit, max=self.limit)", "glu = gate * torch.sigmoid(gate * self.alpha)", "(up + 1) * glu")


def activation_layer(module: nn.Module, name: str) -> Optional[Tuple[str, List[Tuple[str, Any]]]]:
    if name == "NewGELUActivation":
        return "NewGELU", []
    if name == "GELUActivation" and getattr(module, "act", None) is nn.functional.gelu:
        return "GELU", []
    if name in ("GELUTanh", "PytorchGELUTanh") and "Python" not in type(getattr(module, "act", None)).__name__ \
            and getattr(getattr(module, "act", None), "__name__", "gelu") != "_gelu_tanh_python":
        return "GELU", [("approximate", "tanh")]
    return ("SiLU", []) if name == "SiLUActivation" else None


def norm_layer(module: nn.Module, name: str) -> Optional[Tuple[str, List[Tuple[str, Any]]]]:
    source = source_of(type(module).forward) + source_of(getattr(type(module), "_norm", None))
    squares = ".pow(2).mean(-1, keepdim=True)" in source and "torch.rsqrt(" in source
    size = getattr(getattr(module, "weight", None), "shape", [0])[0]
    if name == "T5LayerNorm" and squares and "self.weight * hidden_states" in source:
        return "T5LayerNorm", [("", size), ("eps", module.variance_epsilon)]
    if squares and "self.weight * hidden_states.to(input_dtype)" in source:
        return "LlamaRMSNorm", [("", size), ("eps", module.variance_epsilon)]
    if squares and "output * (1.0 + self.weight.float())" in source:
        return "GemmaRMSNorm", [("", size), ("eps", module.eps)]
    return None


def rotary_layer(module: nn.Module) -> Optional[Tuple[str, List[Tuple[str, Any]]]]:
    """cos and sin of positions. Frequencies that a longer sequence replaces are another module."""
    kind = str(getattr(module, "rope_type", "default"))
    source = source_of(type(module).forward)
    if "dynamic" in kind or kind == "longrope" or "cos = emb.cos() * self.attention_scaling" not in source or "torch.cat((freqs, freqs)" not in source:
        return None
    config = module.config
    base = (getattr(config, "rope_parameters", None) or {}).get("rope_theta") or getattr(config, "rope_theta", 10000.0)
    return "LlamaRotaryEmbedding", [("", 2 * module.inv_freq.numel()), ("base", float(base))]


def converts_for(frame: Optional[nn.Module], name: str) -> bool:
    """Whether a module of transformers converts what it gives to its child to the type of the child's weight: T5's, which
    writes the conversion only where the types differ, as under autocast. And peft's layers, before the dropout of an adapter."""
    if type(frame).__module__.startswith("peft.tuners.") and name.partition(".")[0] in ("lora_dropout", "lora_A"):
        return "self._cast_input_dtype(x, lora_A.weight.dtype)" in source_of(type(frame).forward)
    return type(frame).__module__.startswith("transformers.models.") and \
        f".to(self.{name}.weight.dtype)" in source_of(type(frame).forward)


def turns_as_llama(function: Callable) -> bool:
    """Whether apply_rotary_pos_emb of a model is Llama's."""
    source = source_of(function)
    half = source_of(getattr(sys.modules.get(function.__module__), "rotate_half", None))
    return all(line in source for line in ("cos = cos.unsqueeze(unsqueeze_dim)", "(q * cos) + (rotate_half(q) * sin)",
                                           "(k * cos) + (rotate_half(k) * sin)", "return q_embed, k_embed")) \
        and "float()" not in source and "x1 = x[..., : x.shape[-1] // 2]" in half and "torch.cat((-x2, x1), dim=-1)" in half


# Functions of transformers.masking_utils; whether they return a mask depends on the values of tensors.
CAUSAL_MASKS = frozenset(["create_causal_mask", "create_sliding_window_causal_mask"])
MASKS = CAUSAL_MASKS | {"create_bidirectional_mask"}


def run_function(original: Callable, name: str, args: tuple, kwargs: dict) -> Any:
    """The function's result; a mask that the values of tensors decide on is there."""
    if name not in MASKS:
        return original(*args, **kwargs)
    given = inspect.signature(original).bind(*args, **kwargs).arguments
    embeddings = given.get("inputs_embeds", given.get("input_embeds"))
    padding = given.get("attention_mask")
    eager = getattr(given.get("config"), "_attn_implementation", None) == "eager"  # eager_mask() never skips it, and gives numbers
    dtype = embeddings.dtype if eager else torch.bool
    if padding is not None and padding.dim() != 2:
        return original(*args, **kwargs)  # it is the mask
    if padding is not None:
        refuse_other_masks(name, given)
        return torch.ones(padding.shape[0], 1, embeddings.shape[1], padding.shape[1], dtype=dtype, device="meta")
    if not masks_later_keys(name, given.get("config")):
        return original(*args, **kwargs)  # nothing is masked
    window = getattr(given.get("config"), "sliding_window", None) if name != "create_causal_mask" else None
    if given.get("past_key_values") is not None and (window is None or embeddings.shape[1] < window) and may_skip(given) and not eager:
        return None  # nothing is computed: attention is called as causal
    return torch.ones(embeddings.shape[0], 1, embeddings.shape[1], embeddings.shape[1], dtype=dtype, device="meta")


def may_skip(given: Dict[str, Any]) -> bool:
    """Whether a call of create_causal_mask() and its like may return None where no kernel needs the mask."""
    return given.get("allow_is_causal_skip", True) and given.get("allow_is_bidirectional_skip", True)


def masks_later_keys(name: str, config: Any) -> bool:
    return name in CAUSAL_MASKS and getattr(config, "is_causal", True)


def refuse_other_masks(name: str, given: Dict[str, Any]) -> None:
    """An attention_mask with what the layer AttentionMask does not have."""
    version = getattr(sys.modules.get("transformers"), "__version__", "5")
    if int(version.split(".")[0]) < 5:
        raise ExportError(f"{source_line()}: {name}: attention_mask is supported with transformers 5, not with {version}. Leave it "
                          "out of the batch; all sequences then have full length.")
    others = [n for n in ("or_mask_function", "and_mask_function", "block_sequence_ids") if given.get(n) is not None]
    if others:
        raise ExportError(f"{source_line()}: {name}: {others[0]} is not supported by any layer")
