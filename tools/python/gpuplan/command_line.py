"""The command line: exports the model that MODULE:CALLABLE makes, for a batch of the inputs that are given."""
from __future__ import annotations

import argparse
import math
import re
import sys
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from torch import nn

from gpuplan.construction import Construction
from gpuplan.errors import ExportError
from gpuplan.header import NOTE
from gpuplan.source_lines import failing_line, first_line
from gpuplan.spec import export
from gpuplan.target import built
from gpuplan.trace import MODES


def parsed_input(text: str) -> Tuple[str, torch.Tensor]:
    """3x224x224; 128:int64 for other types; input_ids:int64:128 for what is passed by name. No sizes: one for a sample."""
    name, dtype, sizes = "", torch.float32, []
    for part in text.split(":"):
        if re.fullmatch(r"\d+(x\d+)*", part):
            sizes = [int(n) for n in part.split("x")]
        elif isinstance(getattr(torch, part, None), torch.dtype):
            dtype = getattr(torch, part)
        elif part.isidentifier() and not name:
            name = part
        else:
            raise ExportError(f"--input {text}: expected 3x224x224, 128:int64 or NAME:int64:128, not {part!r}")
    if 0 in sizes or math.prod(sizes) >= 2**62:
        raise ExportError(f"--input {text}: " + ("a size of 0" if 0 in sizes else "too large"))
    return name, torch.empty([2] + sizes, dtype=dtype, device="meta")


def parsed_batch(texts: Sequence[str]) -> Any:
    """The batch that the inputs make: a dict where they have names, of which NAME=OTHER is the same tensor again."""
    named: Dict[str, torch.Tensor] = {}
    positional: List[torch.Tensor] = []
    for text in texts:
        alias, same, other = text.partition("=")
        if same and other not in named:
            raise ExportError(f"--input {text}: there is no earlier input {other!r}")
        name, tensor = (alias, named[other]) if same else parsed_input(text)
        if name in named:
            raise ExportError(f"--input {text}: {name} is given twice")
        if name:
            named[name] = tensor
        else:
            positional.append(tensor)
    if named and positional:
        raise ExportError("--input: name either all inputs or none")
    return named or (positional[0] if len(positional) == 1 else tuple(positional))


def main(arguments: Optional[Sequence[str]] = None, called: str = "python3 -m gpuplan export") -> int:
    parser = argparse.ArgumentParser(prog=called, description="Exports a PyTorch model as a gpuplan spec.")
    parser.add_argument("model", help="MODULE:CALLABLE that returns the model, such as torchvision.models:resnet50")
    parser.add_argument("--input", action="append", required=True, metavar="SIZES",
                        help="shape of an input without the batch dimension: 3x224x224, 128:int64, or by name input_ids:int64:128; "
                        "repeat for each input; labels=input_ids passes the same tensor again")
    parser.add_argument("--arg", action="append", default=[], metavar="NAME=VALUE", help="argument of the callable, or value of the config; repeatable")
    parser.add_argument("--config", default="", metavar="FILE",
                        help="for a transformers class: its config.json, the folder of it, or a model name that transformers finds")
    parser.add_argument("--eval", action="store_true", help="export eval mode only")
    parser.add_argument("--on-gpu", action="store_true",
                        help="plan a model that is created on the GPU, as under torch.device('cuda'), instead of moved there")
    parser.add_argument("-o", "--output", default="model.yaml")
    options = parser.parse_args(arguments)
    try:
        construction = Construction() if options.on_gpu else None
        batch = parsed_batch(options.input)
        model = made(options, construction)
        if not isinstance(model, nn.Module):
            raise ExportError(f"{options.model} returned a {type(model).__name__}, expected a torch.nn.Module")
        model.train()
        text = export(model, batch, options.output, construction=construction, modes=MODES[1:] if options.eval else MODES)
        for line in text.splitlines():
            if line.startswith(NOTE):
                print(f"note: {line[len(NOTE):]}", file=sys.stderr)
    except ExportError as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    except ImportError as e:
        print(f"error: {options.model}: {e}", file=sys.stderr)
        return 2
    except OSError as e:
        print(f"error: {options.output} cannot be written: {e.strerror}", file=sys.stderr)
        return 1
    return 0


def made(options: argparse.Namespace, construction: Optional[Construction]) -> nn.Module:
    try:
        return built(options.model, options.arg, options.config, construction)
    except (ExportError, ImportError):
        raise
    except Exception as e:  # whatever the model's code raises
        at = failing_line(e, "")
        raise ExportError(f"{options.model} failed: {at}{': ' if at else ''}{type(e).__name__}: {first_line(e)}") from e
