"""Makes the model that the command line names, MODULE:CALLABLE."""
from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import inspect
import os
import sys
from typing import Any, Callable, Dict, Optional, Sequence

from torch import nn

from gpuplan.construction import Construction, constructed
from gpuplan.errors import ExportError
from gpuplan.quantized_transformers import made_of


def read_config(cls: Any, config: str, options: Dict[str, Any]) -> Any:
    """The config of a class of transformers: of a config.json or its folder, of a name, or the class's defaults."""
    import json
    import transformers  # what the class came from

    file = os.path.join(config, "config.json") if os.path.isdir(config) else config
    values = {}
    if os.path.isfile(file):
        with open(file, encoding="utf-8") as opened:
            values = json.load(opened)
        if not isinstance(values, dict):
            raise ExportError(f"{file}: expected a JSON object, as a model's config.json is")
    elif config:
        try:
            values = transformers.AutoConfig.from_pretrained(config).to_dict()
        except (OSError, ValueError) as e:
            raise ExportError(f"--config {config}: neither a file, a folder nor a model that transformers finds: {e}")
    config_class = cls.config_class if getattr(cls, "config_class", None) is not None else None
    if config_class is None:
        kind = options.pop("model_type", values.get("model_type"))
        if kind is None:
            raise ExportError(f"{cls.__name__} needs --config, a config.json with its model_type")
        config_class = type(transformers.AutoConfig.for_model(kind))
    return config_class.from_dict({**values, **options})


def made_by_transformers(make: Any) -> bool:
    return inspect.isclass(make) and make.__module__.startswith("transformers.") and \
        (getattr(make, "config_class", None) is not None or hasattr(make, "from_config"))


def built(target: str, arguments: Sequence[str], config: str = "",
          construction: Optional[Construction] = None) -> nn.Module:
    """What maker() makes, without data where it can be."""
    return constructed(maker(target, arguments, config), construction)


def of_name(target: str, module: str) -> Any:
    sys.path.insert(0, os.getcwd())
    if not all(part.isidentifier() for part in module.split(".")):
        raise ExportError(f"{target}: {module!r} is not a module's name: expected MODULE:CALLABLE, as in torchvision.models:resnet50, "
                          "or FILE.py:CALLABLE")
    return importlib.import_module(module)


def of_file(path: str) -> Any:
    """A module by its file, which imports what lies beside it, as a script does."""
    if not os.path.isfile(path):
        raise ExportError(f"{path}: no such file")
    name = os.path.splitext(os.path.basename(path))[0]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # of a file that ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def maker(target: str, arguments: Sequence[str], config: str = "") -> Callable[[], nn.Module]:
    """Calls MODULE:CALLABLE with name=value arguments. A class of transformers is made of its config, in which the
    arguments replace values."""
    module, _, attribute_ = target.partition(":")
    if not attribute_:
        raise ExportError(f"{target}: expected MODULE:CALLABLE, as in torchvision.models:resnet50")
    make: Any = of_file(module) if module.endswith(".py") else of_name(target, module)
    for part in attribute_.split("."):
        near = difflib.get_close_matches(part, dir(make), 1)
        if not hasattr(make, part):
            raise ExportError(f"{target}: {getattr(make, '__name__', module)} has no {part}" + (f": did you mean {near[0]}?" if near else ""))
        make = getattr(make, part)
    if not callable(make):
        raise ExportError(f"{target} is a {type(make).__name__}: expected a function or class that returns the model")
    keywords = {}
    for argument in arguments:
        key, _, value = argument.partition("=")
        try:
            keywords[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            keywords[key] = value
    if made_by_transformers(make):
        made = read_config(make, config, keywords)
        return lambda: made_of(make, made)
    if config:
        raise ExportError(f"--config is for classes of transformers; {target} takes --arg NAME=VALUE")
    return lambda: make(**keywords)
