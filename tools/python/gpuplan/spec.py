"""The spec of a model: runs it, and prints what the runs became."""

# A copy of the model on the `meta` device, where tensors have no data, runs its forward once under a TorchFunctionMode.
# Every call of torch that the Python code makes is seen with its arguments, whatever decided on the call (a symbolic
# trace stops at control flow that depends on shapes; this does not), every module call is a frame, and weak references
# tell when Python lets go of each tensor. The run is repeated with another batch size: what differs between the two is
# what depends on the batch. Then calls become layers of gpuplan's catalog, frames become blocks, equal ones are folded,
# and `keep:` and `Rebind()` are written where a tensor outlives what the blocks alone imply.
from __future__ import annotations

import os
from typing import Any, Callable, List, Optional, Sequence

from torch import nn

from gpuplan.asked_type import AskedType
from gpuplan.both_modes import BothModes
from gpuplan.construction import Construction, moving_ranks
from gpuplan.entries import Body, Entry, all_bodies
from gpuplan.errors import ExportError, GpuplanError
from gpuplan.folding import Folder
from gpuplan.header import Note, header, input_lines, of_own_loss, variables, with_remarks
from gpuplan.lifetimes import hold_what_python_holds
from gpuplan.losses import add_loss_entries
from gpuplan.lowering import Lowering
from gpuplan.printer import Printer
from gpuplan.read_back import read_back
from gpuplan.recorded_move import as_moved
from gpuplan.run import no_loss
from gpuplan.simulated import simulated_gpu
from gpuplan.trace import MODES, Traced, in_both_modes, refuse_unknown, traced_without_labels
from gpuplan.values import Value, flat_tensors
from gpuplan.weights import add_replaced_tables, add_unused_weights, construction_order, entries_of_weights, name_apart, name_ties
from gpuplan.without_data import call_on_batch, refuse_modules, rows_of_a_sample, samples_of, unwrapped


def make_sequential(body: Body, entry: Entry) -> None:
    """A frame of nn.Sequential is written as a list where nothing in it needs a name."""
    module = body.frame.module
    if not isinstance(module, nn.Sequential) or type(module).forward is not nn.Sequential.forward or body.holds:
        return
    current = body.inputs[0] if len(body.inputs) == 1 else None
    for i, e in enumerate(body.entries):
        if current is None or e.inputs != [current] or e.keep or len(e.outputs) != 1 or e.tie:
            return
        current = e.outputs[0]
    body.sequential = True


def return_results(top: Body, lowering: Lowering, main: Optional[Value], both: Optional[BothModes],
                   infer_results: List[Value], infer_main: Optional[Value]) -> None:
    """The model's output is the last entry; what else its output object names lives as long."""
    results = top.frame.results
    if not results or not infer_results:
        raise ExportError("the model returns no tensor: expected one, or tuples, lists, dicts or dataclasses of them")
    main = main if main is not None else results[0]
    for value in results:
        lowering.find(top, value)
    others = [(value, "") for value in results if value is not main]
    if both is not None:
        infer_main = infer_main if infer_main is not None else infer_results[0]
        others = both.returned([v for v, _ in others], top, [e for e in infer_results if e is not infer_main])
        main = both.pick(top, main, infer_main)
    for value, when in others:
        top.add(Entry("ReturnedState", (), [value], [value]))
        top.entries[-1].view, top.entries[-1].when = True, when
    if top.entries[-1].outputs[:1] != [main] or len(top.entries[-1].outputs) != 1:
        top.add(Entry("Identity", (), [main], [main]))
        top.entries[-1].view = True


def describe(model: nn.Module, batch: Any, name: str, forward: Callable, loss: Optional[Callable],
             construction: Optional[Construction] = None, modes: Sequence[str] = MODES, asked: AskedType = AskedType()) -> str:
    """The spec of a model as text."""
    traced: List[Traced] = []
    for mode in modes:
        # The model's own loss, which loss= took from its output, is computed in eval mode, too.
        is_asked = loss is None or mode == "train" or len(modes) == 1 or bool(traced and (traced[0].run.loss_event or traced[0].run.loss_in_forward))
        unlabelled = traced_without_labels(model, batch, forward, traced[0], asked) if traced else None
        traced.append(unlabelled or Traced(model, batch, forward, loss if is_asked else no_loss, mode, asked))
    first = traced[0]
    both = in_both_modes(*traced) if len(traced) == 2 else None
    if both is None:
        first.lower()
        refuse_unknown(traced)
        hold_what_python_holds(first.top, first.run)
    top, lowering, run, text = first.top, first.lowering, first.run, first.loss
    for call in text.shaping:
        lowering.add_function(top, call)
    return_results(top, lowering, text.main, both, traced[-1].run.top.results, traced[-1].loss.main)
    if text.calls or text.in_forward:
        add_loss_entries(top, lowering, run, text.calls)
    refuse_unknown(traced)
    if construction:
        add_replaced_tables(top, lowering)
    add_unused_weights(top, lowering)
    inputs, top.input_names = input_lines(run, batch)
    name_apart(top)
    name_ties(top)
    registered = moving_ranks(first.bare)
    placing = construction or placed_by_moving(model, first)
    made = placing.ranks(model) if placing else registered
    for body in all_bodies(top):
        for entry in body.entries:
            if entry.body is not None:
                make_sequential(entry.body, entry)
        if not body.sequential:
            body.made = construction_order(body, made)
            body.registered = construction_order(body, registered)
    folder = Folder()
    folder.fold(top)
    printer = Printer(folder)
    blocks = printer.blocks(top)
    notes = {n: half for t in traced for n, half in t.run.notes.items()}
    lines = header(model, name, modes) + of_own_loss(run) + of_checks(traced)
    lines += [f"recorded_on: {simulated_gpu()}"] if any(entry.op == "Aten" for body in all_bodies(top) for entry in body.entries) else []
    lines += [f"exported_for: {asked.word()}"] if asked != AskedType() and any(t.run.told for t in traced) else []
    lines += variables(top) + inputs
    lines += ["blocks:"] + blocks if blocks else []
    entries = printer.entries(top, {})
    lines += printer.order(top, "")
    of_loss = entries[printer.loss_line:] if text.calls or text.in_forward else []
    lines += ["layers:"] + ["  " + line for line in entries[:len(entries) - len(of_loss)]]
    lines += placing.steps(model, entries_of_weights(top)) if placing else []
    lines += [f"loss: {text.line}"] if text.line else []
    lines += ["own_loss:" if run.loss_event or run.loss_in_forward else "loss:"] + ["  " + line for line in of_loss] if of_loss else []
    return with_remarks("\n".join(lines), [Note("not in the spec: " + note.rstrip("."), half) for note, half in notes.items()])


def placed_by_moving(model: nn.Module, traced: Traced) -> Optional[Construction]:
    """Of a model that is moved to the GPU: its constructors made nothing there. None where a library's form cannot be recorded."""
    try:
        return as_moved(model)
    except GpuplanError as e:
        traced.run.notes[f"what moving the model to the GPU makes there beside its weights: {e.message}."] = None
        return None


def of_checks(traced: List[Traced]) -> List[str]:
    places = dict.fromkeys(place for t in traced for place in t.run.checks)
    return [f"# Taken to pass, as values are not known: {', '.join(places)}."] if places else []


def export(model: nn.Module, batch: Any, output: str = "model.yaml",
           forward: Callable[[nn.Module, Any], Any] = call_on_batch,
           loss: Optional[Callable[[nn.Module, Any, Any], Any]] = None, name: str = "",
           construction: Optional[Construction] = None, modes: Sequence[str] = MODES, asked: AskedType = AskedType()) -> str:
    """Writes the model's spec to `output` and returns it.

    batch: a tensor, or a tuple or dict of tensors, each with the batch as its first dimension, images a multiple of it. forward(model, batch):
    calls the model; the default passes the batch. loss(model, output, batch): returns the loss; tensors that only the
    loss reads are not inputs of the spec. construction: the Construction with which constructed() made the model, for
    a model that is created on the GPU; without it
    its weights lie as model.to("cuda") moves them. modes: ("train",) or ("eval",) for a model that does not run in the
    other. asked: the type that code is told which asks for its own; plans in other types get the same spec. The model, which may be on any device, meta included, and in any mode, is not changed."""
    if not isinstance(model, nn.Module):
        raise ExportError(f"the model is a {type(model).__name__}, expected a torch.nn.Module")
    model = unwrapped(model)
    refuse_modules(model)
    if not flat_tensors(batch):
        raise ExportError("the batch has no tensors: expected a tensor, or tuples, lists or dicts of them")
    if any(t.dtype.is_complex for t in flat_tensors(batch)):
        raise ExportError("the batch has complex tensors, which no layer supports")
    first = {t.shape[0] // rows_of_a_sample(t, samples_of(batch)) for t in flat_tensors(batch) if t.dim()}
    if len(first) > 1:
        raise ExportError(f"the first dimensions of the batch's tensors are {' and '.join(map(str, sorted(first)))}: the first one is "
                          "the batch. Give others to the model in forward=, as lambda model, batch: model(batch, other)")
    if tuple(modes) not in (MODES, MODES[:1], MODES[1:]):
        raise ExportError(f"modes={modes!r}: expected ('train', 'eval') or one of them")
    name = name or os.path.splitext(os.path.basename(output))[0]
    text = describe(model, batch, name, forward, loss, construction, modes, asked)
    text = with_remarks(text, [Note(n) for n in read_back(text, model, modes)])
    with open(output, "w", encoding="utf-8") as file:
        file.write(text)
    return text
