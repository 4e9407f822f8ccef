"""The command line: exports the model that MODULE:CALLABLE makes, for a batch of the inputs that are given."""
from __future__ import annotations

import argparse
import math
import re
import sys
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from torch import nn

from gpuplan.asked_type import AskedType
from gpuplan.construction import Construction
from gpuplan.errors import ExportError, GpuplanError
from gpuplan.header import remarks_of, with_remarks
from gpuplan.named import PACKAGES, Named, named
from gpuplan.source_lines import failing_line, first_line
from gpuplan.spec import export
from gpuplan.target import built
from gpuplan.simulated import simulate
from gpuplan.trace import MODES


SAMPLES = 2  # of a parsed batch, whose sizes are another's in each run


def parsed_input(text: str) -> Tuple[str, torch.Tensor]:
    """3x224x224; 128:int64 for other types; input_ids:int64:128 for what is passed by name. No sizes: one for a sample; 2*3x224x224: two
    tensors of a sample, one after the other along the batch."""
    name, dtype, sizes, rows = "", torch.float32, [], 1
    for part in text.split(":"):
        if re.fullmatch(r"(\d+\*)?\d+(x\d+)*", part):
            if sizes:
                raise ExportError(f"--input {text}: sizes are given twice, the second time as {part!r}")
            many, _, one = part.rpartition("*")
            sizes, rows = [int(n) for n in one.split("x")], int(many or 1)
        elif isinstance(getattr(torch, part, None), torch.dtype):
            dtype = getattr(torch, part)
        elif part.isidentifier() and not name:
            name = part
        else:
            name_of_size = next((word for word in re.split(r"[x*]", part) if word.isidentifier()), None)
            raise ExportError(f"--input {text}: expected 3x224x224, 128:int64 or NAME:int64:128, not {part!r}" + (
                f"; --set {name_of_size}=N gives a size that has a name" if name_of_size else ""))
    if 0 in [rows, *sizes] or math.prod([rows, *sizes]) >= 2**62:
        raise ExportError(f"--input {text}: " + ("a size of 0" if 0 in [rows, *sizes] else "too large"))
    return name, torch.empty([SAMPLES * rows] + sizes, dtype=dtype, device="meta")


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
    tensors = [*named.values(), *positional]
    if any(t.shape[0] != SAMPLES and t.dim() < 4 for t in tensors) or texts and tensors[0].shape[0] != SAMPLES:
        raise ExportError(f"--input {texts[0]}: `*` is for images, beside a first input that has one tensor of a sample")
    return named or (positional[0] if len(positional) == 1 else tuple(positional))


def parser_of(called: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=called, description="Exports a PyTorch model as a gpuplan spec, and compares the spec with it.")
    parser.add_argument("model", help="timm:NAME, torchvision:NAME, hf:NAME, or FILE.py:CALLABLE or MODULE:CALLABLE that returns the model")
    parser.add_argument("--input", action="append", default=[], metavar="SIZES",
                        help="shape of an input without the batch dimension: 3x224x224, 128:int64, or by name input_ids:int64:128; "
                        "repeat for each input; labels=input_ids passes the same tensor again. Known of timm's, torchvision's and most of "
                        "transformers' models")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=N",
                        help="the number of a size that --input has by name: --input input_ids:int64:seq --set seq=512. Without --input `hf:` "
                        "knows seq, and images of vision-language models; repeatable")
    parser.add_argument("--arg", action="append", default=[], metavar="NAME=VALUE", help="argument of the callable, or value of the config; repeatable")
    parser.add_argument("--config", default="", metavar="FILE",
                        help="for a transformers class: its config.json, the folder of it, or a model name that transformers finds")
    parser.add_argument("--eval", action="store_true", help="export eval mode only")
    parser.add_argument("--precision", choices=("fp32", "bf16", "fp16"), default="fp32",
                        help="the type of the model where its code asks for it (fp32). Plans in any type are made of any export; of code "
                        "that asks they are right in this one")
    parser.add_argument("--amp", choices=("bf16", "fp16"), default="", help="the same for code that asks whether autocast is on")
    parser.add_argument("--on-gpu", action="store_true",
                        help="plan a model that is created on the GPU, as under torch.device('cuda'), instead of moved there")
    parser.add_argument("--gpu", default="", metavar="NAME",
                        help="the simulated GPU on which operators without a layer are recorded, and steps of the model run (a100-80gb)")
    parser.add_argument("--verify", action="store_true", default=None,
                        help="run steps of the model at other batches on a simulated GPU, and compare them with plans of the spec: the "
                        "default where this torch is a build for CUDA")
    parser.add_argument("--no-verify", action="store_false", dest="verify", help="leave that out")
    parser.add_argument("-o", "--output", default="model.yaml")
    return parser


def main(arguments: Optional[Sequence[str]] = None, called: str = "python3 -m gpuplan export") -> int:
    options = parser_of(called).parse_args(arguments)
    try:
        simulate(options.gpu)
        text = exported(options)
        with open(options.output, encoding="utf-8") as file:
            was = file.read()
        if text != was:
            with open(options.output, "w", encoding="utf-8") as file:
                file.write(text)
        for line in remarks_of(text):
            print(line, file=sys.stderr)
    except GpuplanError as e:
        text = str(e)  # the program's own begins with the word
        print(text if text.startswith("error: ") else f"error: {text}", file=sys.stderr)
        return 1
    except ImportError as e:
        print(f"error: {options.model}: {e}", file=sys.stderr)
        return 2
    except OSError as e:
        print(f"error: {options.output} cannot be written: {e.strerror}", file=sys.stderr)
        return 1
    return 0


def exported(options: argparse.Namespace) -> str:
    """Writes the spec, and returns it with what verifying it found."""
    model_named = named(options.model, options.arg, options.config, options.input, options.set)
    construction = Construction() if options.on_gpu else None
    batch = parsed_batch(model_named.inputs)
    model = made(model_named, construction)
    if not isinstance(model, nn.Module):
        raise ExportError(f"{options.model} returned a {type(model).__name__}, expected a torch.nn.Module")
    model.train()
    modes = MODES[1:] if options.eval else MODES
    name = re.sub(r"\W+", "_", options.model.rpartition(":")[2]) if options.model.partition(":")[0] in PACKAGES else ""
    asked = AskedType(options.precision, options.amp)
    text = export(model, batch, options.output, name=name, construction=construction, modes=modes, asked=asked)
    del model
    from gpuplan.stepped import Step
    from gpuplan.verify import can_verify, verified

    if options.verify is False or (options.verify is None and not can_verify()):
        return text

    if sys.stderr.isatty():
        print("verifying: steps of the model on a simulated GPU ...", file=sys.stderr)
    found = verified(options.output, model_named, options.on_gpu, [Step(mode, amp=asked.amp, precision=asked.precision) for mode in modes])
    return with_remarks(text, [], found)


def made(named: Named, construction: Optional[Construction]) -> nn.Module:
    try:
        return built(named.target, named.arguments, named.config, construction)
    except (ExportError, ImportError):
        raise
    except Exception as e:  # whatever the model's code raises
        at = failing_line(e, "")
        raise ExportError(f"{named.target} failed: {at}{': ' if at else ''}{type(e).__name__}: {first_line(e)}") from e
