"""Checkpoints of models whose numbers were never written: from_pretrained() reads them as any other, and quantizes what it reads."""
from __future__ import annotations

import json
import os
import struct
from typing import Any, Dict, List

import torch

SHARD = 5 << 30  # save_pretrained's
KINDS = {torch.bfloat16: "BF16", torch.float16: "F16", torch.float32: "F32", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8"}


def write_checkpoint(folder: str, cls: Any, config: Any, dtype: torch.dtype, quantizer: Any = None) -> None:
    """Of a class of transformers, in files whose numbers are holes; a quantizer of transformers' makes its modules those of a library that
    reads quantized numbers."""
    with torch.device("meta"):
        model = (cls.from_config if cls.__name__.startswith("Auto") else cls)(config).to(dtype)
        if quantizer is not None:
            quantizer.preprocess_model(model, device_map={"": 0}, dtype=dtype)
    shared = set(getattr(model, "all_tied_weights_keys", None) or {})
    shards: List[Dict[str, Any]] = [{}]
    end = 0
    for name, tensor in model.state_dict().items():
        if name in shared:
            continue
        size = tensor.numel() * tensor.element_size()
        if end + size > SHARD and shards[-1]:
            shards.append({})
            end = 0
        shards[-1][name] = {"dtype": KINDS[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [end, end + size]}
        end += size
    names = [f"model-{i + 1:05}-of-{len(shards):05}.safetensors" for i in range(len(shards))]
    for file, shard in zip(names, shards):
        _write_holes(os.path.join(folder, file), shard)
    where = {name: file for file, shard in zip(names, shards) for name in shard}
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as index:
        json.dump({"metadata": {}, "weight_map": where}, index)
    config.architectures = [type(model).__name__]
    config.save_pretrained(folder)


def _write_holes(path: str, shard: Dict[str, Any]) -> None:
    text = json.dumps({"__metadata__": {"format": "pt"}, **shard}).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + max(entry["data_offsets"][1] for entry in shard.values()))
