"""Functions of transformers that are one layer of the catalog are recorded as one call."""
from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from typing import Any, Callable, Dict, Iterator, List

from gpuplan.recorder import Recorder
from gpuplan.source_lines import source_line
from gpuplan.transformers_layers import MASKS, turns_as_llama


@contextlib.contextmanager
def transformers_recorded(recorder: Recorder) -> Iterator[None]:
    """Where transformers is loaded, its functions that are one layer are recorded as one call."""
    undo: List[Callable[[], None]] = []

    def wrapped(original: Callable, name: str) -> Callable:
        return functools.wraps(original)(lambda *args, **kwargs: recorder.call_function(original, name, args, kwargs))

    def replace(owner: Any, name: str, as_name: str = "") -> None:
        original = owner.__dict__.get(name)
        if inspect.isfunction(original):
            setattr(owner, name, wrapped(original, as_name or name))
            undo.append(lambda: setattr(owner, name, original))

    def replace_item(mapping: Dict[str, Any], key: str, as_name: str) -> None:
        original = mapping.get(key)
        if inspect.isfunction(original):
            mapping[key] = wrapped(original, as_name)
            undo.append(lambda: mapping.__setitem__(key, original))

    for path, module in list(sys.modules.items()):
        if not path.startswith("transformers.models.") or ".modeling_" not in path:
            continue
        for name in MASKS:
            replace(module, name)
        if turns_as_llama(getattr(module, "apply_rotary_pos_emb", None) or source_line):
            replace(module, "apply_rotary_pos_emb")
        for owner in [t for t in vars(module).values() if inspect.isclass(t) and t.__module__ == path]:
            for name in ("compute_bias", "_shift_right"):
                if owner.__name__.startswith("T5"):
                    replace(owner, name)
        if path.endswith("modeling_whisper"):
            replace(module, "shift_tokens_right", "_shift_right")
    utils, cache, loss = (sys.modules.get("transformers." + n) for n in ("modeling_utils", "cache_utils", "loss.loss_utils"))
    if hasattr(utils, "ALL_ATTENTION_FUNCTIONS"):
        replace_item(getattr(type(utils.ALL_ATTENTION_FUNCTIONS), "_global_mapping", {}), "sdpa", "attention_interface")
    if hasattr(cache, "Cache"):
        replace(cache.Cache, "update", "cache_update")
    answer = "warn_if_padding_and_no_attention_mask"  # it reads the tokens, to warn
    if answer in vars(getattr(utils, "PreTrainedModel", None) or object):
        warn = vars(utils.PreTrainedModel)[answer]
        setattr(utils.PreTrainedModel, answer, lambda *_, **__: None)
        undo.append(lambda: setattr(utils.PreTrainedModel, answer, warn))
    for key, function in list(getattr(loss, "LOSS_MAPPING", {}).items()):
        replace_item(loss.LOSS_MAPPING, key, "loss_function:" + getattr(function, "__name__", key))
    try:
        yield
    finally:
        for step in reversed(undo):
            step()
