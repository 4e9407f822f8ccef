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
    """Elements; what is shared counts once, as the module's own iterators have it."""
    parameters, buffers = list(model.parameters()), list(model.buffers())
    return {"parameters": sum(p.numel() for p in parameters), "buffers": sum(b.numel() for b in buffers)}


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
