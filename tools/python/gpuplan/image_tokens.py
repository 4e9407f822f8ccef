"""Where a text has its images: a vision-language model wants as many tokens of the image as it has features of it, and says so where it does not."""
from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional

import torch
from torch import nn

from gpuplan.construction import constructed
from gpuplan.values import flat_tensors
from gpuplan.without_data import batch_on_meta, on_meta, rows_of_a_sample


class ImageTokens(NamedTuple):
    """Of each sample."""

    token: int
    many: int

    def put_into(self, ids: torch.Tensor) -> None:
        """In the place of the first tokens of a text of zeros."""
        if self.token == 0:
            ids.fill_(1)
        ids[:, :self.many] = self.token


def asked_of(config: Any, function: Callable) -> Dict[str, Any]:
    """What a function wants besides the pixels and has no default for: the configuration's."""
    wanted = [name for name, p in inspect.signature(function).parameters.items() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    return {name: getattr(config, name, getattr(config.vision_config, name, None)) for name in wanted if name != "pixel_values"}


def image_tokens(make: Callable[[], nn.Module], batch: Any) -> Optional[ImageTokens]:
    """None of a model without such tokens, and where what it makes of an image depends on more than its pixels."""
    if not isinstance(batch, Mapping) or not {"input_ids", "pixel_values"} <= batch.keys():
        return None
    model: Any = on_meta(constructed(make)).eval()
    config = getattr(model, "config", None)
    token = getattr(config, "image_token_id", getattr(config, "image_token_index", None))
    if token is None or not hasattr(model, "get_image_features"):
        return None
    try:
        with torch.no_grad():
            pixels = batch["pixel_values"]
            of_a_sample = batch_on_meta(pixels, rows_of_a_sample(pixels, batch["input_ids"].shape[0]))
            found = model.get_image_features(pixel_values=of_a_sample, **asked_of(config, model.get_image_features))
    except Exception:  # whatever it asks for besides
        return None
    pooled = getattr(found, "pooler_output", None)
    features = flat_tensors(pooled if pooled is not None else getattr(found, "last_hidden_state", found))
    return ImageTokens(token, sum(t.numel() for t in features) // features[-1].shape[-1]) if features else None
