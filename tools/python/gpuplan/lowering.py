"""Turns calls of a run into entries of the catalog's layers."""
from __future__ import annotations

from typing import AbstractSet, Any, Dict, List, Optional, Set, Tuple

import torch
from torch import nn

from gpuplan.complex_numbers import PART, in_pairs, write_complex
from gpuplan.entries import DECLARING, FILLED, Body, Entry, add_return, all_bodies, relative, snake
from gpuplan.errors import Unsupported
from gpuplan.layers import constructor_arguments, named_tensors, simplified
from gpuplan.recorded_operators import Pending, called_name, changes_its_operand, request_of
from gpuplan.recorder import Recorder
from gpuplan.stored import is_float8
from gpuplan.transformers_layers import converts_for
from gpuplan.values import FOREVER, Batch, Call, Frame, Value, dtype_name, flat_values, flattened_calls, unique
from gpuplan.writer import FUNCTIONS, Writer

TAKING_WEIGHTS = ("Linear", "Conv1d", "Conv2d")  # as further inputs


def constants_of_one_frame(run: Recorder) -> set:
    """Tensors that no call of the run made and that the calls of one frame alone read."""
    made = {v for call in flattened_calls(run.top.steps) for v in call.results} | set(run.top.inputs)
    readers: Dict[Value, set] = {}

    def visit(frame: Frame) -> None:
        for step in frame.steps:
            if isinstance(step, Frame):
                visit(step)
                continue
            for value in flat_values((step.args, step.kwargs)):
                if value not in made and value.kind == "activation" and value.weight is None:
                    readers.setdefault(value, set()).add(id(frame))

    visit(run.top)
    return {value for value, frames in readers.items() if len(frames) == 1}


class Lowering:
    """Turns a run into bodies. Collects what the catalog lacks."""

    def __init__(self, model: nn.Module, run: Recorder, local_constants: bool = False, apart: AbstractSet[str] = frozenset()):
        """apart: weights of layers that calls read, too, so that they are entries of their own."""
        self.model, self.run = model, run
        self.apart = apart
        self.read_apart: Set[str] = set()  # those that are to be
        self.local_constants = constants_of_one_frame(run) if local_constants else set()
        self.unknown: Dict[str, None] = {}
        self.pending: List[Pending] = []
        self.used: Dict[str, str] = {}  # weights by path, and the absolute path of the entry that has them
        self.owning: Dict[str, str] = {}  # the layer that a weight was first read by
        self.absent_masks: Set[Value] = set()  # None where the model runs, since nothing is padded
        self.parts: Dict[Value, Optional[Tuple[Value, List[Any]]]] = {}  # views: of what, and which index made them
        self.trained = {n: p.requires_grad for n, p in named_tensors(model, "_parameters")}
        self.differentiated: set = set()  # Values that have a gradient in training
        self.made = {v for call in flattened_calls(run.top.steps) for v in call.results}
        self.source = "the model"  # of the call that is written
        self.cuts = False  # a call under torch.no_grad() is written
        self.names_of_tied = {}
        seen: Dict[int, str] = {}
        for n, p in named_tensors(model, "_parameters", once=False) + named_tensors(model, "_buffers", once=False):
            self.names_of_tied[n] = seen.setdefault(id(p), n)

    # --- frames

    def lower(self, frame: Frame) -> Body:
        body = Body(frame)
        for value in frame.inputs:
            value.shape = value.shape
        for step in frame.steps:
            self.cuts = isinstance(step, Call) and self.run.grad and not step.grad
            self.source = getattr(step, "source", self.source)
            written = len(body.entries)
            if isinstance(step, Frame):
                self.add_block(body, step)
            elif step.module is not None:
                self.add_module(body, step)
            else:
                self.add_function(body, step)
            if isinstance(step, Call):
                for entry in body.entries[written:]:
                    entry.autocast = step.autocast or (entry.view and entry.op != "AutocastType")
                self.add_attributes(body, step)
        return body

    def add_attributes(self, body: Body, call: Call) -> None:
        for value in call.results:
            if value.stays and value in body.defined:
                entry = Entry("Attribute", [], [value], [value])
                entry.event, entry.view = call.event, True
                self.connect(body, entry)

    def add_block(self, body: Body, frame: Frame) -> None:
        child = self.lower(frame)
        if not child.entries:
            return
        frame.results += self.outliving(child, frame)
        only = child.entries[0]
        collapses = not frame.checkpoint and len(child.entries) == 1 and only.own_weights and only.outputs == frame.results and len(frame.inputs) == 1
        if collapses:
            entry = only
            entry.own_weights = False
            entry.owner = entry.path
            entry.inputs = list(frame.inputs)
        else:
            self.finish(child)
            entry = Entry("", (), child.inputs, list(frame.results))
            entry.body = child
        entry.event = frame.end
        entry.path = frame.path if frame.module is not None else \
            next((e.path for inner in all_bodies(child) for e in inner.entries if e.has_weights), "")
        entry.checkpoint, entry.reentrant = frame.checkpoint, frame.reentrant
        if frame.reentrant and self.run.grad and not any(self.has_gradient(v) for v in child.inputs):
            self.unknown[f"{self.source_of(frame)}: torch.utils.checkpoint with use_reentrant=True and no input that requires a gradient "
                         "leaves the weights in it without gradients: use use_reentrant=False"] = None
        if frame.checkpoint and any(e.checkpoint for inner in all_bodies(child) for e in inner.entries):
            self.run.notes[f"the inner one of two checkpoints at {self.source_of(frame)}: backward may be planned higher than it is."] = None
        rel = relative(frame.path, body.frame.path)
        entry.name = body.fresh_name(rel or snake(frame.kind))
        for value in entry.inputs:
            self.find(body, value)
        held = [v for v in frame.held if v in entry.inputs]
        given = next((v for v in entry.inputs if v not in held), None)
        if held and given is not None and self.run.grad:
            holding = Entry("HeldByGraph", [], [given, *held], [given])
            holding.event, holding.view = entry.event, True
            body.add(holding)
        body.add(entry)

    @staticmethod
    def source_of(frame: Frame) -> str:
        """Of the first call of a frame."""
        return next((c.source for c in flattened_calls(frame.steps)), frame.path or "the model")

    def outliving(self, child: Body, frame: Frame) -> List[Value]:
        """Results of the frame's calls that it did not return and that live on all the same, in a list of its caller's."""
        known = {v.storage for v in frame.results + frame.inputs}
        found: Dict[int, Value] = {}
        for value in sorted(child.defined, key=lambda v: v not in self.run.top.results):  # of a storage, what the model returns
            cached = any(entry.op == "KVCache" for entry, _ in child.defined[value])
            if value.kind == "activation" and frame.end <= value.died < FOREVER and value.storage not in known and not (cached or value.stays):
                found.setdefault(value.storage, value)
        return list(found.values())

    def finish(self, body: Body) -> None:
        """The last entry is what the frame returned."""
        results = [v for v in body.frame.results]
        for value in results:
            self.find(body, value)
        last = body.entries[-1]
        if len(results) == 1 and (not last.outputs or last.outputs[0] is not results[0]):
            add_return(body, "Identity", results, results)
        elif len(results) > 1 and last.outputs != results:
            add_return(body, "Return", results, results)

    def find(self, body: Body, value: Value) -> None:
        """Makes a value known in a body: defined by an entry, given to it, or a weight of its own."""
        if value in body.defined or value in body.inputs:
            return
        if value.weight is not None:
            rel = relative(value.weight, body.frame.path)
            if rel is not None and not self.is_leaf_weight(body, rel):
                return self.add_weight(body, value, rel)
        if body.frame is self.run.top or value in self.local_constants:
            if value.kind == "activation":
                self.constant(body, value)
            return
        body.inputs.append(value)

    def weight_value(self, weight: torch.Tensor) -> Value:
        """A parameter that a recognised function reads by itself."""
        return self.run.value_of(weight)

    def is_leaf_weight(self, body: Body, rel: str) -> bool:
        return False

    def constant(self, body: Body, value: Value) -> None:
        """A tensor that the model's code keeps outside of parameters and buffers."""
        if any(isinstance(n, Batch) for n in value.shape) and value not in self.made:
            self.unknown[f"{self.source}: a tensor [{', '.join('batch' if isinstance(n, Batch) else str(n) for n in value.shape)}] "
                         "that no call of torch made: TorchScript's or an extension's"] = None
        entry = Entry("Constant", [("shape", list(in_pairs(value.shape, value.dtype))), ("dtype", dtype_name(PART.get(value.dtype, value.dtype)))], [], [value])
        entry.name = body.fresh_name("constant")
        entry.view = True
        body.add(entry)

    def add_weight(self, body: Body, value: Value, rel: str) -> None:
        if value.kind == "parameter":
            of_integers = [] if value.dtype.is_floating_point and not is_float8(value.dtype) else type_of_buffer(value)
            entry = Entry("Parameter", ([("", n) for n in value.shape] or [("shape", [])]) + of_integers, [], [value])
        else:
            entry = Entry("Buffer", [("shape", list(in_pairs(value.shape, value.dtype))), *type_of_buffer(value)], [], [value])
        entry.view = True
        self.own(entry, [value.weight or ""], value.weight or "")
        entry.name = body.fresh_name(rel.replace(".", "_") if entry.tie else rel)  # of another module, which has it under its path
        if self.owning.get(value.weight or "") in TAKING_WEIGHTS:
            self.read_apart.add(value.weight or "")
        elif self.owning.get(value.weight or "") not in (None, *DECLARING):
            self.unknown[f"{self.source}: reads {value.weight}, which is the weight of a layer, by itself"] = None
        body.add(entry)

    def own(self, entry: Entry, weights: List[str], path: str) -> None:
        """The entry has these weights, or shares them with the one that had them first."""
        entry.has_weights = True
        entry.path = path
        entry.weights = list(weights)
        parameters = [w for w in weights if w in self.trained]
        entry.frozen = bool(parameters) and not any(self.trained[w] for w in parameters)
        if parameters and not entry.frozen and not all(self.trained[w] for w in parameters):
            self.unknown[f"{path}: some of its weights are frozen and others are not"] = None
        owners = {self.used[w] for w in weights if w in self.used}
        if owners:
            entry.tie = sorted(owners)[0]
        for w in weights:
            self.used.setdefault(w, path)
            self.owning.setdefault(w, entry.op)

    # --- modules

    def add_module(self, body: Body, call: Call) -> None:
        module, path = call.module, call.path
        assert module is not None
        tensors = module_inputs(call)
        if call.name == "Identity":
            return
        arguments = sizes_as_run(constructor_arguments(module), call)
        untold = [n for n, v in arguments if n in ("return_indices", "track_running_stats") and v and call.name in ("MaxPool1d", "MaxPool2d", "InstanceNorm2d")]
        if untold:
            return self.refuse(call, f"with {untold[0]}")
        if call.name == "Embedding" and (module.sparse or module.max_norm is not None):
            return self.refuse(call, "with sparse gradients" if module.sparse else "with max_norm")
        if call.name == "EmbeddingBag" and (module.sparse or module.max_norm is not None or module.include_last_offset or
                                            module.scale_grad_by_freq or any(v.dtype.is_floating_point for v in tensors)):
            return self.refuse(call, "with sparse gradients, max_norm, a last offset, scaled gradients or weights of samples")
        if call.name.endswith("Cell") and len(tensors[0].shape) != 2:
            return self.refuse(call, "without a batch")
        if call.name in TAKING_WEIGHTS and (len({p.requires_grad for p in module.parameters()}) > 1 or f"{path}.weight" in self.apart):
            return self.add_with_parameters(body, call, arguments)
        if call.name == "MultiheadAttention":
            need = call.kwargs.get("need_weights", True)
            arguments += [] if need else [("need_weights", False)]
            tensors = tensors[:1]
        outputs = call.results[:1] if call.name in ("MultiheadAttention",) else list(call.results)
        if call.name in ("Dropout", "Dropout2d", "StochasticDepth") and outputs == tensors and not getattr(module, "inplace", False) \
                and dict(arguments).get("p") in (0, 0.0):
            outputs = list(tensors)
        rel = relative(path, body.frame.path)
        if rel and len(tensors) == 1 and converts_for(body.frame.module, rel):
            conversion = Entry("ToParameterType", [], tensors, tensors)
            conversion.event = call.event
            self.connect(body, conversion)
        entry = Entry(call.name, arguments, tensors, outputs)
        entry.event = call.event
        weights = [self.names_of_tied.get(f"{path}.{n}", f"{path}.{n}") for n, _ in list(module.named_parameters()) + list(module.named_buffers())]
        entry.path = path
        if weights:
            self.own(entry, weights, path)
        entry.name = body.fresh_name(rel or snake(call.name))
        self.connect(body, entry)

    def add_with_parameters(self, body: Body, call: Call, arguments: List[Tuple[str, Any]]) -> None:
        """A layer of which some weights are trained and others are not: they are entries of their own that it is given."""
        module = call.module
        assert module is not None
        held = [self.weight_value(w) for w in (module.weight, module.bias) if w is not None]
        entry = Entry(call.name, [a for a in arguments if a[0] != "bias"], module_inputs(call) + held, list(call.results))
        entry.event, entry.path = call.event, call.path
        entry.name = body.fresh_name((relative(call.path, body.frame.path) or snake(call.name)) + ".result")
        self.connect(body, entry)

    def connect(self, body: Body, entry: Entry) -> None:
        for value in entry.inputs:
            self.find(body, value)
        entry.grad = not self.cuts
        if entry.grad and entry.op != "Detach" and entry.op not in FILLED and (entry.weights and not entry.frozen or any(self.has_gradient(v) for v in entry.inputs)):
            self.differentiated.update(entry.outputs)
        body.add(entry)

    def is_view(self, value: Value) -> bool:
        return next((other for other in self.run.every_value if other.storage == value.storage), value) is not value

    def has_gradient(self, value: Value) -> bool:
        trained = value.kind == "parameter" and self.trained.get(value.weight or "", False)
        return (value.dtype.is_floating_point or value.dtype.is_complex) and (trained or value in self.differentiated)

    def refuse(self, call: Call, why: str = "") -> None:
        self.unknown[f"{call.source}: {call.name}" + (f" ({why})" if why else "")] = None

    # --- functions

    def add_function(self, body: Body, call: Call) -> None:
        values = flat_values((call.args, call.kwargs)) + call.results
        if values and all(v.host for v in values):
            return  # takes the host's memory
        if call.results and all(is_empty(v) for v in call.results):
            return  # register tokens, of which a model has none
        if any(v.host and v.shape for v in values) and call.name not in ("to", "cuda", "__getitem__"):
            return self.refuse(call, "of a tensor in host memory")
        if call.kwargs.get("out") is not None:
            return self.refuse(call, "with out=")
        if call.kwargs.get("memory_format") not in (None, torch.contiguous_format, torch.preserve_format):
            return self.refuse(call, "to a memory format: leave it out of the model, and plan with --layout nhwc")
        of_complex = any(v.dtype.is_complex for v in values)
        handler = write_complex if of_complex else FUNCTIONS.get(call.name)
        if handler is None:
            return self.record(body, call, "its backward is the model's own: modes=('eval',) or --eval exports inference" if
                               call.name.startswith("autograd.Function") else "a TorchScript function: use the Python function "
                               "that it was made from" if "." in call.name else "no layer supports this")
        written = len(body.entries)
        try:
            handler(Writer(self, body, call))
        except Unsupported as e:
            if len(body.entries) > written:
                return self.refuse(call, str(e))
            self.record(body, call, str(e))

    def record(self, body: Body, call: Call, why: str) -> None:
        """What no layer takes is the operator itself, as a simulated GPU will run it."""
        operands = unique(flat_values((call.args, call.kwargs)))
        in_place = changes_its_operand(call)
        if call.results and set(call.results) <= set(operands) and not in_place:
            return  # it returns what it was given, as a dropout in eval mode
        wanting = [v for v in operands if self.has_gradient(v)]
        changed = operands[0] if in_place and operands else None
        if changed is not None and wanting and self.is_view(changed):
            return self.refuse(call, why)  # autograd gives what it is a view of another history
        try:
            request = request_of(call, wanting, changed)
        except Unsupported:
            return self.refuse(call, why)
        entry = Writer(self, body, call).emit("Aten", [], operands, None if changed is None else [changed])
        entry.name = body.fresh_name(called_name(call))
        self.pending.append(Pending(entry, request, call, why))


def type_of_buffer(value: Value) -> List[Tuple[str, Any]]:
    """Of a tensor in a library's form, floating numbers of 8 bits are bytes, and others keep their type."""
    if is_float8(value.dtype):
        return [("dtype", "uint8")]
    keeps = value.kind == "held" and value.dtype.is_floating_point or value.dtype.is_complex
    return [("dtype", dtype_name(PART.get(value.dtype, value.dtype))), *([("fixed", True)] if keeps else [])]


def is_empty(value: Value) -> bool:
    """Without elements: PyTorch allocates nothing."""
    return any(n == 0 for n in value.shape)


def sizes_as_run(arguments: List[Tuple[str, Any]], call: Call) -> List[Tuple[str, Any]]:
    """The sizes that a module gave its result, where its layer is not told them as the module was."""
    kept = call.name == "AdaptiveAvgPool2d" and any(isinstance(v, tuple) and None in v for _, v in arguments)
    scaled = call.name == "Upsample" and any(n == "scale_factor" and isinstance(v, tuple) for n, v in arguments)
    size = simplified(tuple(call.results[0].shape[2:])) if call.results else None
    return [("output_size", size) if kept and n == "output_size" else ("size", size) if scaled and n == "scale_factor" else (n, v)
            for n, v in arguments]


def module_inputs(call: Call) -> List[Value]:
    """The tensors that a module's layer reads; some modules take more for their sizes."""
    tensors = flat_values((call.args, call.kwargs))
    if call.name in ("LlamaRotaryEmbedding", "OPTLearnedPositionalEmbedding", "WhisperPositionalEmbedding"):
        return [call.kwargs["position_ids"]] if isinstance(call.kwargs.get("position_ids"), Value) else tensors[-1:]
    return tensors
