"""Runs the zoo's specs beside torchvision's models on PyTorch's meta device and compares them.

    python3 tests/zoo/compare_with_torchvision.py [configs/models/resnet50.yaml ...]

Needs torch, torchvision and pyyaml; no GPU, no memory worth speaking of. For every spec that is named after a
torchvision model it compares
  * the ATen calls of a training step, forward and backward: names, shapes and scalars, in order;
  * the layers that own parameters or buffers: path, type and hyper-parameters, in order of execution;
  * parameters and buffers: names, shapes and order, which is the order that they are allocated in;
  * the bytes of live tensors whenever a call allocates, in a training step and in inference: whether Python's frames
    hold in the model what the spec says that they hold.
The reader below knows just enough of the spec format for the zoo. It is a second, independent reading of the
files: it shares nothing with gpuplan's own.
"""
import ast
import pathlib
import re
import sys

import torch
import torch.nn.functional as F
import torchvision
import yaml
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torchvision.ops import StochasticDepth


def efficientnet_b0():
    """With one drop probability for all blocks, as the spec has it; memory is the same for any but 0."""
    model = torchvision.models.efficientnet_b0()
    for module in model.modules():
        if isinstance(module, StochasticDepth) and module.p > 0:
            module.p = 0.1
    return model


BUILDERS = {
    "efficientnet_b0": efficientnet_b0,
    "googlenet": lambda: torchvision.models.googlenet(aux_logits=False, init_weights=False),
    "fcn_resnet50": lambda: torchvision.models.segmentation.fcn_resnet50(
        weights=None, weights_backbone=None, num_classes=21, aux_loss=None),
}

# Python holds a little less or more than the spec can say while a few layers run in inference; the peak is equal.
PEAK_ONLY = {
    "densenet121",   # a dense layer's concatenation goes after conv1, in the spec after conv2
    "fcn_resnet50",  # the backbone's dictionary of results is held during the interpolation
}

FUNCTIONS = {
    "Cat": lambda xs, dim=0: torch.cat(xs, dim),
    "Mul": lambda xs: xs[0] * xs[1],
    "Add": lambda xs: xs[0] + xs[1],
    "Mean": lambda xs, dim, keepdim=False: xs[0].mean(dim, keepdim),
    "Chunk": lambda xs, chunks, dim=0: xs[0].chunk(chunks, dim),
    "View": lambda xs, *shape: xs[0].view(xs[0].size(0) if shape[0] == -1 else shape[0], *shape[1:]),
    "Transpose": lambda xs, a, b: xs[0].transpose(a, b),
    "Contiguous": lambda xs: xs[0].contiguous(),
    "Flatten": lambda xs, start_dim=1, end_dim=-1: torch.flatten(xs[0], start_dim, end_dim),
    "Interpolate": lambda xs, **kw: F.interpolate(xs[0], **kw),
}
INFERRED = object()
ENTRY_KEYS = {"name", "op", "block", "layers", "residual", "parallel", "from", "if", "with", "repeat", "first", "last"}


def evaluate(expression, scope):
    """An integer expression of the format; `//` and `and/or/not` are Python's."""
    return eval(expression, {"__builtins__": {}}, dict(scope))  # the zoo's own files


def value_of(value, scope):
    """A YAML value with its $x and ${...} resolved."""
    if isinstance(value, str):
        whole = re.fullmatch(r"\$(\w+)|\$\{(.*)\}", value)
        return evaluate(whole[1] or whole[2], scope) if whole else value
    if isinstance(value, list):
        return [value_of(v, scope) for v in value]
    return value


def parse_call(text, scope):
    """`Conv2d(_, ${4*c}, 1, bias=False)` -> type, positional, keywords."""
    text = re.sub(r"\$\{(.*?)\}|\$(\w+)", lambda m: str(evaluate(m[1] or m[2], scope)), text)
    call = ast.parse(text, mode="eval").body

    def argument(node):
        return INFERRED if isinstance(node, ast.Name) and node.id == "_" else ast.literal_eval(node)
    return call.func.id, [argument(a) for a in call.args], {k.arg: argument(k.value) for k in call.keywords}


def as_map(entry):
    """One form for the ways to write an entry: `Call(...)`, `name: Call(...)`, `name: {...}`, `{name:, ...}`."""
    if isinstance(entry, str):
        return {"op": entry}
    if set(entry) & (ENTRY_KEYS - {"name"}):
        return entry
    (name, what), = entry.items()
    return {"name": name, "op": what} if isinstance(what, str) else {"name": name, **what}


def sources(entry):
    """The names in an entry's `from`."""
    names = entry.get("from", [])
    return [names] if isinstance(names, str) else names


class Spec:
    """A spec that runs on the meta device: the first run makes the modules, later ones reuse them."""

    def __init__(self, path):
        self.doc = yaml.safe_load(pathlib.Path(path).read_text())
        self.vars = self.doc.get("vars", {})
        self.modules = {}  # path -> module, in the order of execution

    def __call__(self, x):
        return self.run(self.doc["layers"], x, "", self.vars, {"input": x}, set())

    def eval(self):
        for module in self.modules.values():
            module.eval()
        return self

    def run(self, entries, x, prefix, scope, values, needed):
        """Runs a list of entries. `values` holds what `from` can name, and `needed` the names that are used
        after this list. As in Python, the caller holds what it passes until the call returns; a value goes
        when nothing later names it."""
        for index, entry in enumerate(entries):
            entry = as_map(entry)
            if not value_of(entry.get("if", True), scope):
                continue
            name = str(entry.get("name", index))
            given = [v for s in sources(entry) for v in (values[s] if s == "inputs" else [values[s]])] or [x]
            later = needed.union(*(sources(as_map(e)) for e in entries[index + 1:]))
            x = self.run_entry(entry, name, given, prefix, scope, values, later)
            given = None
            values.update({f"{name}.{k}": part for k, part in enumerate(x if isinstance(x, tuple) else ())})
            values[name] = x
            for unused in set(values) - later:
                del values[unused]
        return x

    def run_entry(self, entry, name, given, prefix, scope, values, later):
        path = prefix + name
        if "op" in entry:
            return self.run_layer(entry["op"], path, given, scope)
        if "residual" in entry:
            part = entry["residual"]
            out = self.run(part["body"], given[0], prefix, scope, values, later)
            shortcut = part.get("shortcut")
            other = given[0]
            if shortcut and value_of(shortcut.get("if", True), scope):
                other = self.run(shortcut["layers"], given[0], prefix, scope, values, later)
            return out.add_(other) if part.get("inplace") else other + out
        if "parallel" in entry:
            part = entry["parallel"]
            outs = [self.run(b, given[0], prefix, scope, values, later) for b in part["branches"]]
            if len(outs) == 1:
                return outs[0]
            return torch.cat(outs, part.get("dim", 1)) if part["join"] == "cat" else outs[0] * outs[1]
        if "layers" in entry:
            return self.run(entry["layers"], given[0], path + ".", scope, {"input": given[0]}, set())
        return self.run_block(entry, path, given, scope)

    def run_block(self, entry, path, given, scope):
        x = given[0]
        block = self.doc["blocks"][entry["block"]]
        count = entry.get("repeat", 1)
        for i in range(count):
            chosen = {**entry.get("with", {}), **(entry.get("first", {}) if i == 0 else {}),
                      **(entry.get("last", {}) if i == count - 1 else {})}
            params = block.get("params", {})
            assert set(chosen) <= set(params), f"{path}: {set(chosen) - set(params)} unknown"
            inner = {**params, **{k: value_of(v, scope) for k, v in chosen.items()}}
            assert "required" not in inner.values(), f"{path}: a required parameter is missing"
            prefix = f"{path}.{i}." if "repeat" in entry else path + "."
            x = self.run(block["layers"], x, prefix, {**self.vars, **inner},
                         {"input": x, "inputs": given}, set())
            given = [x]
        return x

    def run_layer(self, text, path, given, scope):
        kind, positional, keywords = parse_call(text, scope)
        if kind in FUNCTIONS:
            return FUNCTIONS[kind](given, *positional, **keywords)
        x, = given
        channels = x.shape[-1] if kind == "Linear" else x.shape[1]
        positional = [channels if a is INFERRED else a for a in positional]
        if path not in self.modules:
            make = StochasticDepth if kind == "StochasticDepth" else getattr(nn, kind)
            self.modules[path] = make(*positional, **keywords).to("meta")
        return self.modules[path](x)


class Calls(TorchDispatchMode):
    """Records ATen calls with the shapes of tensors, the values of everything else, and the bytes of the live
    storages that the calls made whenever one allocates."""

    def __init__(self):
        super().__init__()
        self.calls, self.live_bytes, self.storages = [], [], {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        def shown(value):
            if isinstance(value, torch.Tensor):
                return tuple(value.shape)
            return [shown(v) for v in value] if isinstance(value, (list, tuple)) else value
        out = func(*args, **(kwargs or {}))
        self.storages = {k: v for k, v in self.storages.items() if not v[0].expired()}
        if str(func) not in ("aten.detach.default", "aten.empty.memory_format"):
            self.calls.append((str(func), str([shown(a) for a in args])))
        known = len(self.storages)
        for made in out if isinstance(out, (list, tuple)) else [out]:
            if isinstance(made, torch.Tensor):
                reference = StorageWeakRef(made.untyped_storage())
                self.storages.setdefault(reference.cdata, (reference, made.untyped_storage().nbytes()))
        if len(self.storages) > known:
            self.live_bytes.append((str(func), sum(size for _, size in self.storages.values())))
        return out


def step(model, inputs, loss):
    with Calls() as training:
        out = model(*inputs)
        loss(out["out"] if isinstance(out, dict) else out).backward()
    return training


def infer(model, inputs):
    with torch.no_grad(), Calls() as inference:
        model(*inputs)
    return inference


def owned(modules):
    """(path, type, hyper-parameters) of the modules with parameters."""
    return [(path, type(m).__name__, m.extra_repr()) for path, m in modules if next(m.parameters(), None) is not None]


def executed_modules(model):
    """The leaf modules of a model in the order that they run; fill by running the model."""
    ran = []
    for path, m in model.named_modules():
        if not list(m.children()):
            m.register_forward_hook(lambda mod, a, o, path=path: ran.append((path, mod)))
    return ran


def tensors(modules):
    """Parameters and buffers of modules in order: (name, shape)."""
    return [(f"{path}.{n}", tuple(t.shape)) for path, m in modules for n, t in
            [*m.named_parameters(recurse=False), *m.named_buffers(recurse=False)]]


def first_difference(a, b):
    if not isinstance(a, list):
        return f"spec {a}, PyTorch {b}"
    for i, (x, y) in enumerate(zip(a, b)):
        if x != y:
            return f"at {i}: spec {x}, PyTorch {y}"
    return f"{len(a)} in the spec, {len(b)} in PyTorch"


def compare(path, reference, inputs, loss):
    """Returns what differs, a line each; nothing when the spec is the model."""
    spec = Spec(path)
    spec(*inputs)
    ran = executed_modules(reference.train())
    training = step(spec, inputs, loss), step(reference, inputs, loss)
    trained = list(ran)
    inference = infer(spec.eval(), inputs), infer(reference.eval(), inputs)
    made = list(spec.modules.items())
    registered = [(n, m) for n, m in reference.named_modules() if not list(m.children())]
    checks = {
        "calls of training": [c.calls for c in training],
        "calls of inference": [c.calls for c in inference],
        "live bytes in training": [c.live_bytes for c in training],
        "live bytes in inference": [max(b for _, b in c.live_bytes) if pathlib.Path(path).stem in PEAK_ONLY else
                                    c.live_bytes for c in inference],
        "layers": (owned(made), owned(trained)),
        "names": (sorted(tensors(made)), sorted(tensors(registered))),
        "order of parameters": (tensors(made), tensors(registered)),
    }
    unnamed = sorted({p for p, _ in ran} - set(spec.modules))
    count = sum(p.numel() for m in spec.modules.values() for p in m.parameters())
    notes = [f"differs in {what}: {first_difference(a, b)}" for what, (a, b) in checks.items() if a != b]
    if unnamed:
        notes.append(f"runs in PyTorch but not under that name in the spec: {', '.join(unnamed)}")
    return count, len(training[0].calls), notes


def main(paths):
    failed = False
    for path in paths or sorted((pathlib.Path(__file__).parents[2] / "configs/models").glob("*.yaml")):
        name = pathlib.Path(path).stem
        build = BUILDERS.get(name) or getattr(torchvision.models, name, None)
        if build is None:
            continue
        with torch.device("meta"):
            model = build()
            size = Spec(path).vars.get("size", 224)
            images = torch.zeros(2, 3, size, size)
            target = torch.zeros((2, size, size) if name.startswith("fcn") else 2, dtype=torch.int64)
        count, calls, notes = compare(path, model, [images], lambda y: F.cross_entropy(y, target))
        print(f"{name}: {count} parameters, {calls} ATen calls, {'; '.join(notes) or 'equal'}")
        failed = failed or bool(notes)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
