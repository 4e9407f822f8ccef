"""Functions of transformers that are one layer of the catalog: masks, rotary embeddings, caches, attention."""
from __future__ import annotations

import sys
from typing import Any, List, Tuple

import torch
from torch import nn

from gpuplan.entries import Variable
from gpuplan.errors import Unsupported
from gpuplan.writer import Writer, handles
from gpuplan.source_lines import source_of
from gpuplan.transformers_layers import masks_later_keys, may_skip
from gpuplan.values import Value, flattened_calls


@handles("create_causal_mask", "create_sliding_window_causal_mask", "create_bidirectional_mask")
def write_mask(w: Writer) -> None:
    padding, embeddings = w.kwargs.get("attention_mask"), w.kwargs.get("inputs_embeds", w.kwargs.get("input_embeds"))
    if not w.results() or w.results() == [padding]:
        return
    causal = masks_later_keys(w.call.name, w.kwargs["config"])
    window = getattr(w.kwargs["config"], "sliding_window", None) if "sliding_window" in w.call.name and causal else None
    options: List[Tuple[str, Any]] = [("sliding_window", window)] if window else []
    if getattr(w.kwargs["config"], "_attn_implementation", None) == "eager":
        options.append(("eager", True))
    if not may_skip(w.kwargs):
        options.append(("skip", False))
    if padding is not None:
        arguments = [] if causal else [("causal", False)]
        padded: Any = False if made_of_ones(w, padding) else Variable("padded == 1")
        w.emit("AttentionMask", arguments + [("padded", padded)] + options, [embeddings, padding])
        if padded is False and not causal and may_skip(w.kwargs):
            w.lowering.absent_masks.add(w.results()[0])
    else:
        write_causal_mask(w, embeddings, options)


SHAPING = frozenset("to long int float bool expand repeat view reshape unsqueeze clone contiguous __getitem__ type_as".split())


def made_of_ones(w: Writer, padding: Any) -> bool:
    """A mask that the model makes because it was given none, also of several parts."""
    if isinstance(padding, Value) and padding.everywhere:
        return True
    made = next((c for c in flattened_calls(w.lowering.run.top.steps) if isinstance(padding, Value) and padding in c.results), None)
    if made is None or made.name in ("ones", "new_ones", "ones_like"):
        return made is not None
    if made.name in ("full", "new_full"):
        return made.kwargs.get("fill_value", made.args[-1] if made.args else None) == 1
    if made.name in ("cat", "concat"):
        return all(made_of_ones(w, part) for part in made.args[0])
    return made.name in SHAPING and made_of_ones(w, made.args[0])


def write_causal_mask(w: Writer, embeddings: Value, options: List[Tuple[str, Any]]) -> None:
    positions = w.kwargs.get("position_ids")
    arguments: List[Tuple[str, Any]] = []
    if w.kwargs["cached"] or positions is None:
        arguments.append(("packed", False))
        arguments.append(("given_positions", False))
    else:
        arguments.append(("packed", Variable("packed == 1")))
    if positions is None:
        positions = next((v for v in w.body.frame.inputs if v.dtype == torch.int64 and len(v.shape) == 2), None)
    if positions is None:
        raise Unsupported("of embeddings alone")
    w.emit("CausalMask", arguments + options, [embeddings, positions])


@handles("apply_rotary_pos_emb")
def write_rotary(w: Writer) -> None:
    dim = w.kwargs.get("unsqueeze_dim", 1)
    w.emit("ApplyRotaryPosEmb", [("unsqueeze_dim", dim)] if dim != 1 else [], [w.kwargs[n] for n in ("q", "k", "cos", "sin")])


@handles("cache_update")
def write_cache_update(w: Writer) -> None:
    flags = ([("windowed", True)] if w.kwargs["windowed"] else []) + ([] if w.kwargs["returned"] else [("returned", False)])
    w.emit("KVCache", [("copies", True)] + flags, [w.kwargs["key_states"], w.kwargs["value_states"]])


def eager_source(module: nn.Module) -> str:
    """What the model runs with --attention eager."""
    return source_of(getattr(sys.modules.get(type(module).__module__), "eager_attention_forward", None))


@handles("attention_interface")
def write_attention_interface(w: Writer) -> None:
    module = w.kwargs["module"]
    mask, bias, extra = w.kwargs.get("attention_mask"), w.kwargs.get("position_bias"), w.kwargs.get("kwargs", {})
    causal = w.kwargs.get("is_causal")
    causal = getattr(module, "is_causal", True) if causal is None else causal
    dropout = float(w.kwargs.get("dropout", 0.0))
    arguments: List[Tuple[str, Any]] = [("dropout", dropout)] if dropout else []
    inputs = [w.kwargs[n] for n in ("query", "key", "value")]
    if extra.get("softcap") is not None or extra.get("cache") is not None:
        raise Unsupported("with softcap or a paged cache")
    if isinstance(bias, Value):
        return w.emit("PositionBiasAttention", arguments + ([("causal", True)] if causal else []),
                      inputs + [bias] + ([mask] if mask is not None else [])) and None
    inputs += [mask] if mask is not None else []
    if hasattr(module, "num_key_value_groups") and (causal or mask is not None):
        return w.emit("GroupedQueryAttention", arguments, inputs) and None
    source = eager_source(module)
    softmax = "fp32" if "dtype=torch.float32).to(" in source else "value" if ".type(value.dtype)" in source else "plain"
    arguments += [("softmax", softmax)] if softmax != "plain" else []
    arguments += [] if causal else [("causal", False)]
    w.emit("HuggingFaceAttention", arguments, inputs)


@handles("compute_bias")
def write_position_bias(w: Writer) -> None:
    attention = w.kwargs["self"]
    table = w.lowering.weight_value(attention.relative_attention_bias.weight)
    queries, keys = w.kwargs["query_length"], w.kwargs["key_length"]
    if queries != keys or w.kwargs.get("past_seen_tokens", 0):
        raise Unsupported("of other keys than queries")
    heads = attention.n_heads
    arguments: List[Tuple[str, Any]] = [("", attention.relative_attention_num_buckets), ("", heads), ("", queries)]
    w.with_weights("T5PositionBias", arguments + ([("bidirectional", False)] if attention.is_decoder else []), [], [table])


@handles("_shift_right")
def write_shift_right(w: Writer) -> None:
    w.emit("ShiftRight", [], [next(v for v in w.tensors())])
