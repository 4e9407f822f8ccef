"""A spec is read back by the program before it is written: what gpuplan refuses is never left in a file, and what it
reads as another model says so."""
from __future__ import annotations

import json
import subprocess
from typing import Dict, List, Sequence

from torch import nn

from gpuplan.batch_sizes import TRACED_BATCHES
from gpuplan.errors import ExportError, GpuplanError
from gpuplan.program import error_of, program
from gpuplan.stored import is_stored, key_of, named_tensors_of, parts
from gpuplan.without_data import on_meta


def read_back(text: str, model: nn.Module, modes: Sequence[str]) -> List[str]:
    """What the spec's notes say of it: nothing where parameters and buffers are the module's. Raises ExportError where the
    program refuses the spec."""
    try:
        path = program()
    except GpuplanError:
        return ["it was not read back: the installation that exported it has no gpuplan program"]
    wrong: Dict[str, None] = {}
    for mode in modes:
        read = _plan(path, text, mode)["model"]
        for what, count in _counts(model).items():
            if read[what] != count:
                wrong[f"the spec has {read[what]:,} elements of {what}, the module {count:,}"] = None
    return list(wrong)


def _counts(model: nn.Module) -> Dict[str, int]:
    """Elements; what is shared counts once, as the module's own iterators have it. In a library's form a weight has fewer, and
    other tensors beside it; a complex number is two."""
    stored = any(is_stored(module) for module in model.modules())
    model = on_meta(model) if stored else model
    parameters, buffers = [p for p in model.parameters() if not parts(p)], list(model.buffers())
    known = {key_of(t) for t in [*parameters, *buffers]} if stored else set()
    held = {key_of(t): t for module in model.modules() if is_stored(module) for _, t in named_tensors_of(module)}
    buffers += [t for key, t in held.items() if key not in known]
    return {"parameters": sum(p.numel() for p in parameters), "buffers": sum(b.numel() * (2 if b.is_complex() else 1) for b in buffers)}


def _plan(path: str, text: str, mode: str) -> "dict[str, dict[str, int]]":
    """A plan of the spec in one mode, of the first batch that was traced."""
    words: List[str] = [path, "plan", "-", "--batch", str(TRACED_BATCHES[0]), "--format", "json"] + (["--mode", "infer"] if mode == "eval" else [])
    done = subprocess.run(words, input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode in (0, 1):
        return json.loads(done.stdout)
    error = error_of(done.stderr, done.returncode)
    lines = text.splitlines()
    at = f": {lines[error.line - 1].strip()}" if error.line and error.line <= len(lines) else ""
    raise ExportError(f"the spec of this model is one that gpuplan does not read in {mode} mode: {error.message}{at}")
