"""What a spec says before its layers: comments, variables, inputs."""
from __future__ import annotations

import json
import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import nn

from gpuplan.entries import Body, Variable, all_bodies
from gpuplan.printer import plain
from gpuplan.recorder import Recorder
from gpuplan.values import dtype_name, flat_tensors


def input_lines(run: Recorder, batch: Any) -> Tuple[List[str], List[str]]:
    """The inputs: section, and their names. batch: as it was given."""
    values = run.top.inputs
    # The run's own tensors want none: a graph of autograd would hold what Python lets go.
    given = {id(t): t for t in flat_tensors(batch)}.values()
    wanting = {value for value, tensor in zip(run.batch, given) if tensor.requires_grad}
    shapes = []
    for value in values:
        dtype = "" if value.dtype in (torch.float32, torch.float16, torch.bfloat16) else f", dtype: {dtype_name(value.dtype)}"
        dtype += ", requires_grad: true" if value in wanting else ""
        shapes.append("{shape: [" + ", ".join(str(n) for n in value.shape[1:]) + "]" + dtype + "}")
    if len(values) == 1 and not run.input_names:
        return [f"input: {shapes[0]}"], []
    names = [run.input_names.get(v, f"input{i}") for i, v in enumerate(values)]
    return ["inputs:"] + [f"  {plain(n)}: {s}" for n, s in zip(names, shapes)], names


OF_ITSELF = ["# The loss is the model's own, of what it computed alone. --mode infer plans a call without it."]
OF_OWN_LOSS = ["# The loss is the model's own. --mode infer plans a call without labels, which Trainer.evaluate() would give it."]
OF_FORWARD = ["# The loss is the model's own, computed among its layers."]


def of_own_loss(run: Recorder) -> List[str]:
    return OF_FORWARD if run.loss_in_forward else [] if not run.loss_event else OF_ITSELF if run.loss_of_itself else OF_OWN_LOSS


def header(model: nn.Module, name: str, modes: Sequence[str]) -> List[str]:
    count = sum(p.numel() for p in model.parameters())
    runs = f"its run in {modes[0]} mode" if len(modes) == 1 else "its runs in train and eval mode"
    return [f"# {type(model).__name__}: {count:,} parameters. Exported by tools/python/gpuplan from {runs},",
            f"# PyTorch {torch.__version__.split('+')[0]}.{plan_with(model)}", "gpuplan: 1", f"name: {name}"]


class Note(NamedTuple):
    """What a spec lacks: a warning of its plans, or of those in one type alone."""
    text: str
    of: Optional[str] = None

    def line(self) -> str:
        return f"  - {{{self.of}: {json.dumps(self.text)}}}" if self.of else f"  - {json.dumps(self.text)}"


NOTE = re.compile(r'  - (?:\{(\w+): )?(".*")\}?')


class Verdict(NamedTuple):
    """What a comparison with the model's own steps found."""

    verified: str  # what it is equal to
    differs: Dict[str, str]  # or what it is not, of plans in `train` and `infer`
    notes: List[str]  # why it could not be compared


def without_verdict(text: str) -> str:
    lines = text.splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if line.startswith("name: "))
    return "".join(line for i, line in enumerate(lines) if not (i in (first + 1, first + 2) and line.startswith(("verified: ", "differs: "))))


def of_other_types(text: str, types: Sequence[str]) -> str:
    """A spec's text without the notes of these types."""
    lines = text.splitlines(keepends=True)
    left = [line for line in lines if not ((note := NOTE.fullmatch(line.rstrip("\n"))) and note[1] in types)]
    return "".join(line for line, after in zip(left, [*left[1:], ""]) if line != "notes:\n" or after.startswith("  - "))


def with_remarks(text: str, notes: Sequence[Note], verdict: Optional[Verdict] = None) -> str:
    """A spec's text with what its plans say of it: notes are warnings, as is where it differs."""
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("name: ")) + 1
    remarks = [f"{key}: {json.dumps(said)}" for key, said in zip(("verified", "differs"), verdict or ()) if said]
    notes = [*(Note(n) for n in (verdict.notes if verdict else ())), *notes]
    if notes:
        had = lines[at:at + 1] == ["notes:"]
        at += had
        remarks += ([] if had else ["notes:"]) + [note.line() for note in notes]
    return "\n".join([*lines[:at], *remarks, *lines[at:]]) + "\n"


def remarks_of(text: str) -> List[str]:
    """The lines that with_remarks() put into a spec, as a terminal shows them."""
    lines = []
    for line in text.splitlines():
        key, _, said = line.partition(": ")
        if key in ("verified", "differs"):
            lines += [f"{key}: {text}" for text in ([json.loads(said)] if key == "verified" else json.loads(said).values())]
        elif note := NOTE.fullmatch(line):
            lines.append(f"note{' of plans in ' + note[1] if note[1] else ''}: {json.loads(note[2])}")
        elif lines and not line.startswith(("notes:", "  - ")):
            break
    return lines


def plan_with(model: nn.Module) -> str:
    """What of the model is a flag of the plan."""
    words = {torch.bfloat16: "--precision bf16", torch.float16: "--precision fp16", torch.float64: "--precision fp64"}
    weights = list(model.parameters())
    flags = [words[t] for t in dict.fromkeys(p.dtype for p in weights) if t in words]
    last = any(p.dim() == 4 and p.is_contiguous(memory_format=torch.channels_last) and not p.is_contiguous() for p in weights)
    flags += ["--layout nhwc"] if last else []
    return f" To plan it as it was exported, use {' '.join(flags)}." if flags else ""


# The variables that expressions of the spec read: what they are by default, and what another value means.
VARIABLES = {"packed": (0, "1: several sequences are packed into one, so SDPA kernels get a mask"),
             "padded": (1, "0: no token is padding, so the attention_mask leads to no mask for SDPA kernels")}


def variables(top: Body) -> List[str]:
    used = {a.expression.split()[0] for body in all_bodies(top) for e in body.entries for _, a in e.arguments if isinstance(a, Variable)}
    return ["vars:"] + [f"  {name}: {value}  # {other}" for name, (value, other) in VARIABLES.items() if name in used] if used else []
