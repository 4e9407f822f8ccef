"""Optimizers by the words of --opt: classes, or functions that make one, each of the parameters that its words select.

    torch.optim.Adafactor    schedulefree.AdamWScheduleFree(lr=0.01)    train.py:make_optimizer    muon:matrices,adamw:rest"""
from __future__ import annotations

import ast
import fnmatch
import importlib
import inspect
import re
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import torch

from gpuplan.errors import GpuplanError

Named = Sequence[Tuple[str, torch.Tensor]]
PART = re.compile(r"(?P<callee>[^():]+\.py:\w+|[\w.]+)(?P<arguments>\(.*\))?(?::(?P<which>[^():]+))?")
EXAMPLE = "NAME, MODULE.CLASS(ARGUMENT=VALUE), FILE.py:FUNCTION, or NAME:matrices,NAME:rest"

# Names that people use, beside those of torch.optim's classes in lower case.
KNOWN = {"came": "came_pytorch.CAME", "prodigy": "prodigyopt.Prodigy", "schedulefree_adamw": "schedulefree.AdamWScheduleFree", "schedulefree_sgd": "schedulefree.SGDScheduleFree",
         "schedulefree_radam": "schedulefree.RAdamScheduleFree", "soap": "pytorch_optimizer.SOAP", "adopt": "pytorch_optimizer.ADOPT",
         "torchao_adamw8bit": "torchao.optim.AdamW8bit",
         "torchao_adamw4bit": "torchao.optim.AdamW4bit", "torchao_adamwfp8": "torchao.optim.AdamWFp8", "transformers_adafactor": "transformers.Adafactor"}


class Part(NamedTuple):
    text: str
    callee: str
    arguments: Dict[str, Any]
    which: str  # empty: all parameters


def optimizers_named(text: str, parameters: Named) -> List[torch.optim.Optimizer]:
    """Raises GpuplanError where the text names none, or what it names refuses its parameters."""
    parts = [part_of(word) for word in split_at_commas(text)]
    if len(parts) > 1:
        for part in parts:
            if not part.which:
                raise usage(f"--opt {text}: {part.text} does not say which parameters it steps", "for example: --opt muon:matrices,adamw:rest")
    made: List[torch.optim.Optimizer] = []
    for part, its in zip(parts, shared_out(parts, parameters, text)):
        made += made_by(part, its)
    return made


def usage(message: str, help: str) -> GpuplanError:
    return GpuplanError(message, help=help, exit_code=2)


def split_at_commas(text: str) -> List[str]:
    words, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            words.append("")
        else:
            words[-1] += letter
    return [word.strip() for word in words]


def part_of(word: str) -> Part:
    found = PART.fullmatch(word)
    if found is None:
        raise usage(f"--opt {word}: expected {EXAMPLE}", "gpuplan explain optimizers")
    return Part(word, found["callee"], arguments_of(word, found["arguments"]), found["which"] or "")


def arguments_of(word: str, text: str) -> Dict[str, Any]:
    try:
        call = ast.parse("f" + (text or "()"), mode="eval").body
        if not isinstance(call, ast.Call) or call.args or any(keyword.arg is None for keyword in call.keywords):
            raise ValueError
        return {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError):
        raise usage(f"--opt {word}: its arguments are NAME=VALUE, with values as Python writes them",
                    "for example: torch.optim.AdamW(lr=0.001, capturable=True)") from None


def shared_out(parts: Sequence[Part], parameters: Named, text: str) -> List[Named]:
    taken = {name: part for part in reversed(parts) if part.which not in ("", "rest") for name, p in parameters if selects(part.which, name, p)}
    shares: List[Named] = []
    for part in parts:
        if part.which == "rest":
            shares.append([(name, p) for name, p in parameters if name not in taken])
        else:
            shares.append([(name, p) for name, p in parameters if not part.which or taken.get(name) is part])
        if not shares[-1]:
            raise usage(f"--opt {text}: {part.which or part.text} selects none of the {len(parameters)} parameters",
                        f"a pattern is of their names, as in {parameters[0][0]}" if parameters else "the model trains none")
    left = len(parameters) - sum(map(len, shares))
    if left > 0:
        missing = next(name for name, _ in parameters if all(name not in dict(share) for share in shares))
        raise usage(f"--opt {text}: {left} of {len(parameters)} parameters have no optimizer, {missing} the first", "NAME:rest steps what is left")
    return shares


def selects(which: str, name: str, parameter: torch.Tensor) -> bool:
    return any(parameter.dim() == 2 if word == "matrices" else fnmatch.fnmatchcase(name, word) for word in which.split("+"))


def made_by(part: Part, parameters: Named) -> List[torch.optim.Optimizer]:
    callee = found(part)
    try:
        if inspect.isclass(callee):
            made = of_class(callee, [p for _, p in parameters], part.arguments)
        else:
            made = callee(parameters, **part.arguments)
    except GpuplanError:
        raise
    except Exception as error:  # whatever the optimizer's code raises
        raise GpuplanError(f"--opt {part.text}: {type(error).__name__}: {error}", exit_code=2,
                           help="FILE.py:FUNCTION, called with the list of (name, parameter), makes any optimizer of them") from error
    several = list(made) if isinstance(made, (list, tuple)) else [made]
    for optimizer in several:
        if not callable(getattr(optimizer, "step", None)):
            raise GpuplanError(f"--opt {part.text} is no optimizer: it has no step()", exit_code=2)
    return several


def of_class(cls: Any, parameters: List[torch.Tensor], arguments: Dict[str, Any]) -> Any:
    """No byte depends on a learning rate, which some constructors require."""
    try:
        return cls(parameters, **arguments)
    except Exception:  # whatever the optimizer's code raises
        if "lr" in arguments or "lr" not in inspect.signature(cls).parameters:
            raise
    return cls(parameters, lr=0.001, **arguments)


def found(part: Part) -> Any:
    if ".py:" in part.callee:
        from gpuplan.target import of_file

        path, _, name = part.callee.rpartition(":")
        return attribute(of_file(path), name, part)
    full = KNOWN.get(part.callee.lower()) or of_torch(part.callee)
    module, _, name = full.rpartition(".")
    if not module:
        raise usage(f"--opt {part.text}: no optimizer is called {part.callee}", f"expected {EXAMPLE}")
    try:
        callee = attribute(importlib.import_module(module), name, part)
    except ImportError as error:
        raise GpuplanError(f"--opt {part.text}: {error}") from error
    # A budget that comes with a pull request may name it: nothing else of a package is called.
    if not (inspect.isclass(callee) and issubclass(callee, torch.optim.Optimizer)):
        raise usage(f"--opt {part.text}: {full} is no class of optimizers", "a function is one of a file: optim.py:make")
    return callee


def of_torch(name: str) -> str:
    classes = {key.lower(): key for key, value in vars(torch.optim).items() if inspect.isclass(value)}
    if name.lower() in classes:
        return "torch.optim." + classes[name.lower()]
    return name


def attribute(module: Any, name: str, part: Part) -> Any:
    if not callable(getattr(module, name, None)):
        raise usage(f"--opt {part.text}: {module.__name__} has no {name}", f"expected {EXAMPLE}")
    return getattr(module, name)
