"""What a word on the command line names: timm:NAME, torchvision:NAME and hf:NAME are models of those packages, FILE.py:CALLABLE
is one of a file, MODULE:CALLABLE of a module. With the inputs that it takes, where the package says them."""
from __future__ import annotations

import difflib
import inspect
import os
import re
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

from gpuplan.errors import ExportError

FILES_READ: List[str] = []  # configurations; what else a model is made of is imported
TOKENS = 512  # of a sample, where no --input says how many; fewer where the model takes fewer


class Named(NamedTuple):
    """A model as maker() makes it, and its inputs as --input has them."""

    target: str
    arguments: List[str]
    config: str
    inputs: List[str]


def named(word: str, arguments: Sequence[str] = (), config: str = "", inputs: Sequence[str] = (), sizes: Sequence[str] = ()) -> Named:
    """sizes: NAME=N of what inputs have by name. Raises ExportError for a name that the package does not have, and where the inputs are
    not known."""
    package, _, name = word.partition(":")
    find = PACKAGES.get(package)
    given = sizes_given(sizes)
    inputs = numbered(inputs, given)
    if find is None or not name or (package != "hf" and not config and _is_callable(package, name)):
        found = Named(word, list(arguments), config, list(inputs))
    else:
        found = find(name, list(arguments), list(inputs), given)
    for size in given:
        raise ExportError(f"--set {size}: {word} has no size of this name: {', '.join(found.inputs)}")
    if not found.inputs:
        raise ExportError(f"{word}: what it takes is not known: give --input, the shape of a sample, such as --input 3x224x224 or "
                          "--input input_ids:int64:512 --input labels=input_ids")
    return found


def sizes_given(texts: Sequence[str]) -> Dict[str, int]:
    found: Dict[str, int] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if not name.isidentifier() or not number.isdecimal():
            raise ExportError(f"--set {text}: expected NAME=N, the number of a size that --input has by name")
        found[name] = int(number)
    return found


def numbered(inputs: Sequence[str], given: Dict[str, int]) -> List[str]:
    """input_ids:int64:seq with seq's number, which is taken out of what is given."""
    used = set()

    def of_word(word: str) -> str:
        used.update({word} & given.keys())
        return str(given.get(word, word))

    found = [text if "=" in text else "".join(map(of_word, re.split(r"([x*:])", text))) for text in inputs]
    for name in used:
        del given[name]
    return found


def _is_callable(package: str, name: str) -> bool:
    """timm:create_model is a function of the package, not a model's name."""
    import importlib

    return callable(getattr(importlib.import_module(package), name.partition(".")[0], None))


def _unknown(package: str, name: str, names: Sequence[str]) -> ExportError:
    near = difflib.get_close_matches(name, names, 1)
    return ExportError(f"{package} has no model {name}" + (f": did you mean {package}:{near[0]}?" if near else ""))


def _timm(name: str, arguments: List[str], inputs: List[str], _: Dict[str, int]) -> Named:
    import timm

    if not timm.is_model(name.partition(".")[0]):
        raise _unknown("timm", name, timm.list_models())
    known = timm.models.get_pretrained_cfg(name, allow_unregistered=True)
    size = tuple(known.input_size) if known else (3, 224, 224)
    return Named("timm:create_model", [f"model_name={name}", *arguments], "", inputs or ["x".join(map(str, size))])


def _torchvision(name: str, arguments: List[str], inputs: List[str], _: Dict[str, int]) -> Named:
    from torchvision import models

    if name not in models.list_models():
        raise _unknown("torchvision", name, models.list_models())
    given = {a.partition("=")[0] for a in arguments}
    needs = inspect.signature(models.get_model_builder(name)).parameters
    # Nothing is downloaded. Without init_weights these two warn that their default will change.
    without = [f"{key}={value}" for key, value in (("weights_backbone", None), ("init_weights", True)) if key in needs and key not in given]
    return Named("torchvision.models:get_model", [f"name={name}", *without, *arguments], "", inputs or _torchvision_inputs(name))


def _torchvision_inputs(name: str) -> List[str]:
    """As its published weights take images: the size they are cropped or, for segmentation, scaled to."""
    from torchvision import models

    transforms = next(iter(models.get_model_weights(name))).transforms
    keywords: Dict[str, Any] = getattr(transforms, "keywords", {})
    size = keywords.get("crop_size", keywords.get("resize_size"))
    if size is None:
        return []  # detection and optical flow take more than images
    height, width = (size if isinstance(size, (tuple, list)) else (size, size))[-2:]
    frames = "16x" if "Video" in getattr(getattr(transforms, "func", None), "__name__", "") else ""
    return [f"3x{frames}{height}x{width}"]


def _hugging_face(name: str, arguments: List[str], inputs: List[str], sizes: Dict[str, int]) -> Named:
    """The class of its config.json, from a folder, the cache of downloads or, where that lacks it, the network. Takes seq and images out of
    the sizes where it uses them."""
    import transformers

    folder = os.path.dirname(name) if name.endswith("config.json") else name
    try:
        config = transformers.AutoConfig.from_pretrained(folder or ".")
    except Exception as e:  # of many kinds: no such model, no network, an architecture that this release does not know
        raise ExportError(f"transformers {transformers.__version__} finds no model {name}: {str(e).splitlines()[0]}") from e
    FILES_READ.append(transformers.utils.cached_file(folder or ".", "config.json"))
    names = list(getattr(config, "architectures", None) or [])
    cls = next((getattr(transformers, n) for n in names if hasattr(transformers, n)), None)
    if cls is None:
        raise ExportError(f"{name}: transformers {transformers.__version__} has no class {' or '.join(names) or 'for it: its config.json names none'}")
    return Named(f"transformers:{cls.__name__}", arguments, folder or ".", inputs or _hugging_face_inputs(cls, config, sizes))


def _hugging_face_inputs(cls: Any, config: Any, sizes: Dict[str, int]) -> List[str]:
    """Those of its main input, and labels where its forward takes them."""
    takes = inspect.signature(cls.forward).parameters
    parts = [config] + [part for part in (getattr(config, k, None) for k in ("text_config", "vision_config")) if part is not None]

    def of_config(*keys: str) -> Optional[Any]:
        return next((value for part in parts for key in keys for value in [getattr(part, key, None)] if value is not None), None)

    if cls.main_input_name == "pixel_values" and "input_ids" not in takes:
        size = of_config("image_size", "input_size")
        size = [size["height"], size["width"]] if isinstance(size, dict) else [size, size] if isinstance(size, int) else size
        if size is None:
            return []
        inputs = [f"pixel_values:{of_config('num_channels') or 3}x{size[0]}x{size[1]}"]
        return inputs + (["labels:int64"] if "labels" in takes and cls.__name__.endswith("ForImageClassification") else [])
    if "input_ids" in takes and "pixel_values" in takes:
        return _image_and_text(takes, config, sizes)
    if cls.main_input_name != "input_ids":
        return []
    most = of_config("max_position_embeddings", "n_positions")
    tokens = sizes.pop("seq", min(TOKENS, most) if isinstance(most, int) and most > 0 else TOKENS)
    inputs = [f"input_ids:int64:{tokens}"]
    if "start_positions" in takes:
        return inputs + ["start_positions:int64", "end_positions:int64"]
    if "labels" not in takes:
        return inputs
    kind = cls.__name__
    return inputs + ["labels:int64" if "SequenceClassification" in kind else f"labels:int64:{tokens}" if "TokenClassification" in kind
                     else "labels=input_ids"]


def _image_and_text(takes: Any, config: Any, sizes: Dict[str, int]) -> List[str]:
    """Of a vision-language model that has an image as one tensor of pixels: as many tokens as of a text, beside those of its images at most."""
    vision = getattr(config, "vision_config", None)
    size, patch = (value[0] if isinstance(value, (tuple, list)) else value for value in (getattr(vision, key, None) for key in ("image_size", "patch_size")))
    in_parts = {"image_grid_thw", "pixel_attention_mask"} & set(takes) or getattr(config, "image_grid_pinpoints", None)
    if in_parts or "labels" not in takes or not isinstance(size, int) or not isinstance(patch, int):
        return []
    images = sizes.pop("images", 1)
    tokens = sizes.pop("seq", TOKENS + images * (size // patch) ** 2)
    return [f"input_ids:int64:{tokens}", f"pixel_values:{images}*{getattr(vision, 'num_channels', None) or 3}x{size}x{size}", "labels=input_ids"]


PACKAGES: Dict[str, Callable[[str, List[str], List[str], Dict[str, int]], Named]] = {"timm": _timm, "torchvision": _torchvision, "hf": _hugging_face}
