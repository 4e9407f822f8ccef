"""Models that a hash draws from what timm, torchvision and transformers have, and programs (programs.py): nobody chose them, nobody tuned for
them.

A model's name is KIND:NAME. What it is made of, its batch and its loss are a rule, the same wherever it is measured."""
from __future__ import annotations

import hashlib
import inspect
import itertools
import os
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Tuple

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch  # noqa: E402

import programs  # noqa: E402

COUNTS = {"timm": 60, "torchvision": 25, "hf": 45}
LARGEST = 150_000_000  # parameters: a step of it fits beside others on one card
LAYERS, VOCABULARY, TOKENS = 2, 1024, 64
# Tasks of transformers whose batch is tokens, images or sound, and labels.
TASKS = ("", "FOR_CAUSAL_LM", "FOR_MASKED_LM", "FOR_SEQUENCE_CLASSIFICATION", "FOR_TOKEN_CLASSIFICATION", "FOR_IMAGE_CLASSIFICATION",
         "FOR_QUESTION_ANSWERING", "FOR_SEQ_TO_SEQ_CAUSAL_LM", "FOR_AUDIO_CLASSIFICATION", "FOR_SPEECH_SEQ_2_SEQ", "FOR_CTC",
         "FOR_SEMANTIC_SEGMENTATION", "FOR_DEPTH_ESTIMATION", "FOR_ZERO_SHOT_IMAGE_CLASSIFICATION", "FOR_VIDEO_CLASSIFICATION",
         "FOR_MASKED_IMAGE_MODELING", "FOR_IMAGE_TO_IMAGE")
LAYER_KEYS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers", "num_encoder_layers",
              "num_decoder_layers", "num_attention_layers")


class Drawn(NamedTuple):
    make: Callable[[], torch.nn.Module]
    batch: Callable[[int, str], Any]  # of so many samples on a device: images and classes, or keywords
    loss: Callable[[Any, Any], torch.Tensor]  # of outputs and batch


def names_of(kind: str) -> List[str]:
    if kind == "program":
        return []  # there are as many as numbers
    if kind == "timm":
        import timm

        return timm.list_models()
    if kind == "torchvision":
        from torchvision import models

        return models.list_models(module=models) + models.list_models(module=models.segmentation)
    from transformers.models.auto import modeling_auto

    found = set()
    for task in TASKS:
        for cls in getattr(modeling_auto, f"MODEL_{task}_MAPPING_NAMES".replace("__", "_")).values():
            found.update(cls if isinstance(cls, (tuple, list)) else [cls])
    return sorted(found)


def in_order(salt: str, kind: str) -> Iterator[str]:
    """All models of the kind in the order that the salt gives them."""
    if kind == "program":
        return (f"program:{int(hashlib.sha256(f'{salt} {i}'.encode()).hexdigest()[:8], 16)}" for i in itertools.count())
    return iter(sorted((f"{kind}:{name}" for name in names_of(kind)), key=lambda name: hashlib.sha256(f"{salt} {name}".encode()).hexdigest()))


def drawn(name: str) -> Drawn:
    kind, _, rest = name.partition(":")
    return {"timm": _timm, "torchvision": _torchvision, "hf": _hugging_face, "program": _program}[kind](rest)


def has_images(name: str) -> bool:
    """Alone, as a batch that a layout can be chosen for."""
    return name.startswith(("timm:", "torchvision:")) or name.startswith("program:") and len(programs.program(int(name[8:]))[1]) == 3


def first_tensor(out: Any) -> torch.Tensor:
    """Of an output: tensors, tuples, dictionaries and dataclasses of them, in order."""
    if isinstance(out, torch.Tensor):
        return out
    for value in out.values() if isinstance(out, dict) else out:
        if value is not None and not isinstance(value, (int, float, str, bool)):
            return first_tensor(value)
    raise TypeError("no tensor among the outputs")


def _images(make: Callable[[], torch.nn.Module], size: Tuple[int, ...], segments: bool = False) -> Drawn:
    """Cross entropy of classes, [N] or [N, H, W]. The images are there first, as of `images, classes = next(loader)`: which hole of the
    allocator's cache each gets depends on it."""
    def batch(samples: int, device: str) -> Tuple[torch.Tensor, torch.Tensor]:
        images = torch.randn((samples,) + size, device=device)
        return images, torch.zeros((samples,) + (size[1:] if segments else ()), dtype=torch.int64, device=device)

    return Drawn(make, batch, lambda out, batch: torch.nn.functional.cross_entropy(first_tensor(out), batch[1]))


def call(model: torch.nn.Module, batch: Any) -> Any:
    return model(**batch) if isinstance(batch, dict) else model(batch[0])


def _timm(name: str) -> Drawn:
    import timm

    size = timm.get_pretrained_cfg(name, allow_unregistered=True)
    return _images(lambda: timm.create_model(name), tuple(size.input_size) if size else (3, 224, 224))


def _torchvision(name: str) -> Drawn:
    from torchvision import models

    segments = name in models.list_models(module=models.segmentation)
    keywords = {"weights_backbone": None} if segments else {"init_weights": True} if name in ("googlenet", "inception_v3") else {}
    return _images(lambda: models.get_model(name, **keywords), (3, 299, 299) if name == "inception_v3" else (3, 224, 224), segments)


def _program(number: str) -> Drawn:
    """Cross entropy of each output."""
    def batch(samples: int, device: str) -> Tuple[torch.Tensor, torch.Tensor]:
        return torch.randn((samples, *programs.program(int(number))[1]), device=device), torch.zeros(samples, dtype=torch.int64, device=device)

    def loss(out: Any, batch: Any) -> torch.Tensor:
        losses = [torch.nn.functional.cross_entropy(y, batch[1]) for y in (out if isinstance(out, tuple) else (out,))]
        return losses[0] if len(losses) == 1 else losses[0] + 0.4 * losses[1]

    return Drawn(lambda: programs.network(int(number)), batch, loss)


def _shrink(config: Any) -> None:
    """Few layers and words; what else the class has by default stays."""
    for key in LAYER_KEYS:
        if isinstance(getattr(config, key, None), int):
            setattr(config, key, min(LAYERS, getattr(config, key)))
    if isinstance(getattr(config, "layer_types", None), list):
        config.layer_types = config.layer_types[:LAYERS]
    if isinstance(getattr(config, "vocab_size", None), int):
        config.vocab_size = VOCABULARY
        for key in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id", "sep_token_id", "cls_token_id"):
            if isinstance(getattr(config, key, None), int) and getattr(config, key) >= VOCABULARY:
                setattr(config, key, VOCABULARY - 1)
    for key, value in list(vars(config).items()):
        if key.endswith("_config") and hasattr(value, "to_dict"):
            _shrink(value)


def _of(config: Any, *keys: str) -> Any:
    for part in [config] + [getattr(config, k, None) for k in ("vision_config", "text_config", "backbone_config", "audio_config")]:
        for key in keys:
            if getattr(part, key, None) is not None:
                return getattr(part, key)
    return None


def _hugging_face(name: str) -> Drawn:
    import transformers

    cls = getattr(transformers, name)
    config = cls.config_class()
    _shrink(config)
    if "padding" in inspect.signature(cls.forward).parameters:
        raise TypeError("not a model of tokens, images or sound")
    takes = inspect.signature(cls.forward).parameters
    if getattr(config, "pad_token_id", 0) is None and "SequenceClassification" in name:
        config.pad_token_id = 0
    main = cls.main_input_name
    size = _of(config, "image_size") or 224
    height, width = (size if isinstance(size, (list, tuple)) else (size, size))[:2] if not isinstance(size, dict) else (size["height"], size["width"])

    def batch(samples: int, device: str) -> Dict[str, torch.Tensor]:
        def integers(shape: Tuple[int, ...], below: int) -> torch.Tensor:
            return torch.randint(2, max(below, 3), shape, device=device)

        out: Dict[str, torch.Tensor] = {}
        tokens = integers((samples, TOKENS), VOCABULARY - 1)
        if "pixel_values" in takes:
            frames = (samples, _of(config, "num_frames")) if "Video" in name or _of(config, "num_frames") else (samples,)
            out["pixel_values"] = torch.randn(frames + (_of(config, "num_channels") or 3, height, width), device=device)
        if main == "input_ids" or ("input_ids" in takes and "pixel_values" in takes):
            out["input_ids"] = tokens
        if main == "input_values":
            out["input_values"] = torch.randn((samples, 16000), device=device)
        if main == "input_features":
            out["input_features"] = torch.randn((samples, _of(config, "num_mel_bins", "input_feat_per_channel") or 80,
                                                 2 * (_of(config, "max_source_positions") or 50)), device=device)
        if main == "bool_masked_pos" or "MaskedImage" in name:
            raise TypeError("its batch is more than tokens, images or sound")
        if "start_positions" in takes:
            out["start_positions"], out["end_positions"] = integers((samples,), TOKENS), integers((samples,), TOKENS)
        elif "return_loss" in takes and "labels" not in takes:
            out["return_loss"] = True
        elif "labels" in takes:
            if "SequenceClassification" in name or name.endswith(("ImageClassification", "VideoClassification", "AudioClassification")):
                out["labels"] = integers((samples,), config.num_labels) % config.num_labels
            elif "TokenClassification" in name:
                out["labels"] = integers((samples, TOKENS), config.num_labels) % config.num_labels
            elif "SemanticSegmentation" in name:
                out["labels"] = integers((samples, height, width), config.num_labels) % config.num_labels
            elif name.endswith("CTC"):
                out["labels"] = integers((samples, 8), 20)
            else:
                out["labels"] = tokens
        return out

    def loss(out: Any, _: Any) -> torch.Tensor:
        found = getattr(out, "loss", None)
        return found if found is not None else first_tensor(out).float().mean()

    return Drawn(lambda: cls(config), batch, loss)
