"""Makes one body of what train mode and eval mode run."""
from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Tuple

from gpuplan.alignment import aligned
from gpuplan.entries import DECLARING, Body, Entry, add_return, all_bodies
from gpuplan.errors import ExportError
from gpuplan.printer import Printer
from gpuplan.values import FOREVER, Value

# What training alone does and the plan of an inference leaves out by itself.
OF_TRAINING = frozenset("Dropout Dropout2d StochasticDepth".split())


class Rebound(NamedTuple):
    """Tensors that a mode lets go after an entry."""
    at: int
    values: List[Value]
    when: str


class BothModes:
    """Makes one body of those of a run in train mode and a run in eval mode: `when:` is on what one of them runs alone.

    The tensors of the spec are those of train mode, and of eval mode those that it alone makes. An entry that a mode
    does not run hands on its first input there, so that every tensor of the spec is some tensor in both."""

    def __init__(self, died: Dict[int, int], died_in_infer: Dict[int, int]):
        self.died, self.died_in_infer = died, died_in_infer  # by storage, the last event that saw it
        self.infer_of: Dict[Value, Value] = {}  # what a tensor of the spec is in eval mode
        self.train_of: Dict[Value, Value] = {}  # and in train mode, where it is not itself
        self.known: Dict[Value, List[Value]] = {}  # of a tensor of eval mode, those of the spec that it was

    def is_in_infer(self, value: Value, other: Value) -> None:
        self.infer_of[value] = other
        self.known.setdefault(other, []).append(value)

    def in_train(self, value: Value) -> Value:
        return self.train_of.get(value, value)

    # --- one body

    def merge(self, a: Body, b: Body) -> None:
        """Writes b into a."""
        pairs = aligned(without_return(a), without_return(b))
        place = {id(e): i for i, e in enumerate(a.entries)}, {id(e): i for i, e in enumerate(b.entries)}
        held, held_in_infer = ({i: values for i, values in body.holds.items()} for body in (a, b))
        ends = last_allocation(a), last_allocation(b)
        a.entries, a.defined, a.holds = [], {}, {}
        for value in b.inputs:
            if not any(self.infer_of.get(m) is value for m in a.inputs):
                a.inputs.append(self.standing_for(a, value))
        kept: List[Tuple[Entry, str]] = []
        rebinds: List[Rebound] = []
        now = (0, 0)  # the events of both runs that the spec has come to
        for x, y in pairs:
            now = tuple(max(n, e.event) if e is not None else n for n, e in zip(now, (x, y)))
            entry = self.add(a, x, y)
            kept += self.keeps(entry, x, y, ends)
            rebinds += self.holds_of(a, now, held.get(place[0].get(id(x), -1), []),
                                     held_in_infer.get(place[1].get(id(y), -1), []))
        self.add_kept(a, kept, rebinds)
        self.add_rebinds(a, rebinds)

    def add(self, a: Body, x: Optional[Entry], y: Optional[Entry]) -> Entry:
        if x is not None and y is not None:
            self.run_by_both(a, x, y)
            return x
        if x is not None:
            self.run_by_train(a, x)
            return x
        assert y is not None
        self.run_by_infer(a, y)
        return y

    def run_by_both(self, a: Body, x: Entry, y: Entry) -> None:
        if x.body is not None and y.body is not None:
            self.merge(x.body, y.body)
            x.outputs = self.finish(x.body, x.outputs, y.outputs)
            x.inputs = x.body.inputs
            for value in x.inputs:
                self.show(a, value)
        else:
            x.inputs = [self.pick(a, t, e) for t, e in zip(x.inputs, y.inputs)]
            for t, e in zip(x.outputs, y.outputs):
                self.is_in_infer(t, e)
        a.add(x)

    def run_by_train(self, a: Body, x: Entry) -> None:
        if x.op in DECLARING:
            handed_on = x.outputs[0] if x.outputs else None
        else:
            x.when = "" if x.op in OF_TRAINING else "train"
            given = x.inputs[0] if x.inputs else last_result(a)
            handed_on = None if given is None else self.infer_of.get(given)
        for value in x.outputs:
            if handed_on is not None and not (value in x.inputs and value in self.infer_of):
                self.is_in_infer(value, handed_on)
        a.add(x)

    def run_by_infer(self, a: Body, y: Entry) -> None:
        inputs = [self.standing_for(a, e) for e in y.inputs]
        replaced = {e: m for e, m in zip(y.inputs, inputs) if e is not m}
        if y.body is not None:
            replace_values(y.body, replaced)
        y.inputs = inputs if y.body is None else y.body.inputs
        y.outputs = [replaced.get(e, e) for e in y.outputs]
        if y.op not in DECLARING:
            y.when = "infer"
        y.name = a.fresh_name(y.name) if y.name else ""
        given = inputs[0] if inputs else last_result(a)
        for value in y.outputs:
            if value not in inputs:
                self.is_in_infer(value, value)
                if given is not None and y.op not in DECLARING:
                    self.train_of[value] = self.in_train(given)
        a.add(y)

    # --- tensors

    def show(self, body: Body, value: Value) -> None:
        if value not in body.defined and value not in body.inputs:
            body.inputs.append(value)

    def standing_for(self, body: Body, value: Value) -> Value:
        """A tensor of the spec that is this one in eval mode, best one that eval mode makes itself."""
        candidates = [m for m in self.known.get(value, []) if self.infer_of[m] is value]
        seen = [m for m in candidates if m in body.defined or m in body.inputs] or candidates
        if not seen:
            raise ExportError("train mode and eval mode read different tensors at one point. Export one mode only: modes=('train',)")
        best = [m for m in seen if not any(e.when == "train" for e, _ in body.defined.get(m, ()))] or seen
        self.show(body, best[-1])
        return best[-1]

    def pick(self, body: Body, t: Value, e: Value) -> Value:
        """A tensor of the spec that is `t` in train mode and `e` in eval mode."""
        if self.infer_of.get(t) is e:
            return t
        for m in reversed(self.known.get(e, [])):
            if (m in body.defined or m in body.inputs) and self.infer_of[m] is e and self.in_train(m) is t:
                return m
        made = body.defined.get(e, [])
        if made and made[-1][0].when == "infer" and not made[-1][0].inputs:  # a constant hands on what it is told to
            made[-1][0].inputs = [t]
            self.train_of[e] = t
            return e
        return self.select(body, t, e)

    def select(self, body: Body, t: Value, e: Value) -> Value:
        """An entry that train mode runs, to hand both on, of which the second is wanted; eval mode has the first."""
        entry = Entry("Return", (), [self.standing_for(body, e), t], [])
        chosen, other = (object.__new__(Value) for _ in range(2))
        for value in (chosen, other):
            value.__dict__.update(vars(t))
        entry.outputs = [other, chosen]
        entry.view, entry.when = True, "train"
        entry.name = body.fresh_name("of_mode")
        self.is_in_infer(other, e)
        self.is_in_infer(chosen, e)
        self.train_of[chosen] = t
        body.add(entry)
        return chosen

    # --- results

    def finish(self, body: Body, results: List[Value], infer_results: List[Value]) -> List[Value]:
        """The last entry is what the frame returned, in both modes."""
        partners = self.partners(results, infer_results)
        given = [t if partners[t] is None else self.pick(body, t, partners[t]) for t in results]  # type: ignore[arg-type]
        more = [self.standing_for(body, e) for e in infer_results if e not in partners.values()]
        wanted, last = results + more, body.entries[-1]
        if len(wanted) == 1 and (last.outputs[:1] != given or given != wanted):
            add_return(body, "Identity", given, wanted)
        elif len(wanted) > 1 and (last.outputs != given + more or given != results):
            add_return(body, "Return", given + more, wanted)
        for t, e in partners.items():
            if e is not None:
                self.is_in_infer(t, e)
        return wanted

    def partners(self, results: List[Value], infer_results: List[Value]) -> Dict[Value, Optional[Value]]:
        """The result in eval mode of each in train mode: the same tensor, else the next one that is no other's."""
        found: Dict[Value, Optional[Value]] = {t: None for t in results}
        left = list(infer_results)
        for t in results:
            if self.infer_of.get(t) in left:
                found[t] = self.infer_of[t]
                left.remove(self.infer_of[t])
        for t in results:
            if found[t] is None and left:
                found[t] = left.pop(0)
        return found

    def returned(self, results: List[Value], body: Body, infer_results: List[Value]) -> List[Tuple[Value, str]]:
        """What the output object names besides the output, and the mode where it is that of one."""
        left = list(infer_results)
        found: List[Tuple[Value, str]] = []
        for value in results:
            partner = self.infer_of.get(value)
            found.append((value, "" if partner in left else "train"))
            if partner in left:
                left.remove(partner)
        return found + [(self.standing_for(body, e), "infer") for e in left]

    # --- lifetimes

    def lives(self, value: Value, event: int) -> bool:
        """Whether a tensor of the spec is alive in train mode after this."""
        value = self.in_train(value)
        return value.kind != "activation" or self.died.get(value.storage, FOREVER) >= event

    def lives_in_infer(self, value: Value, event: int) -> bool:
        known = self.infer_of.get(value, value)
        return known.kind != "activation" or self.died_in_infer.get(known.storage, FOREVER) >= event

    def keeps(self, entry: Entry, x: Optional[Entry], y: Optional[Entry], ends: Tuple[int, int]) -> List[Tuple[Entry, str]]:
        """keep: stands where it is true of both modes; otherwise the entry and the mode that keeps its result."""
        if entry.when or not any(e.keep for e in (x, y) if e is not None):
            return []
        in_train = x is not None and x.keep or all(self.lives(v, ends[0]) for v in entry.outputs)
        in_infer = y is not None and y.keep or all(self.lives_in_infer(v, ends[1]) for v in entry.outputs)
        entry.keep = in_train and in_infer
        return [] if entry.keep else [(entry, "train" if in_train else "infer")]

    def holds_of(self, a: Body, now: Tuple[int, ...], held: List[Value], held_in_infer: List[Value]) -> List[Rebound]:
        """What is let go after the last entry: in both modes, or what one of them has let go before."""
        at = len(a.entries) - 1
        both = [v for v in held if self.lives_in_infer(v, now[1])]
        storages = {self.infer_of[v].storage for v in both if v in self.infer_of}
        infer = [self.standing_for(a, e) for e in held_in_infer if e.storage not in storages]
        both += [m for m in infer if self.lives(m, now[0])]
        if both:
            a.holds[at] = both
        alone = ([v for v in held if v not in both], "train"), ([m for m in infer if m not in both], "infer")
        return [Rebound(at, values, when) for values, when in alone if values]

    def add_kept(self, a: Body, kept: List[Tuple[Entry, str]], rebinds: List[Rebound]) -> None:
        """What one mode keeps is held by a name until the frame's end."""
        storages = {self.infer_of[v].storage for e in a.entries if e.keep for v in e.outputs if v in self.infer_of}
        for when in ("train", "infer"):
            values = [v for entry, mode in kept if mode == when for v in entry.outputs if v not in a.entries[-1].outputs]
            if when == "infer":
                values = [v for v in values if v not in self.infer_of or self.infer_of[v].storage not in storages]
            if values:
                rebinds.append(Rebound(len(a.entries) - 1, values, when))

    @staticmethod
    def add_rebinds(a: Body, rebinds: List[Rebound]) -> None:
        for at, values, when in sorted(rebinds, key=lambda r: -r.at):
            current = a.entries[at].outputs[0] if a.entries[at].outputs else a.inputs[0]
            for group in reversed(list(Printer.chunks(values))):
                entry = Entry("Rebind", (), [current] + group, [current])
                entry.view, entry.when = True, when
                a.entries.insert(at + 1, entry)
                a.defined.setdefault(current, []).append((entry, 0))
                a.holds = {i + (i > at): v for i, v in a.holds.items()}


def without_return(body: Body) -> List[Entry]:
    return [e for e in body.entries if not e.returns]


def last_result(body: Body) -> Optional[Value]:
    """What an entry that names nothing is given."""
    if not body.entries:
        return body.inputs[0] if body.inputs else None
    return body.entries[-1].outputs[0] if body.entries[-1].outputs else None


def last_allocation(body: Body) -> int:
    return max((e.event for inner in all_bodies(body) for e in inner.entries if not e.view and e.body is None), default=0)


def replace_values(body: Body, replaced: Dict[Value, Value]) -> None:
    def of(values: List[Value]) -> List[Value]:
        return [replaced.get(v, v) for v in values]

    for inner in all_bodies(body):
        inner.inputs = of(inner.inputs)
        inner.defined = {replaced.get(v, v): d for v, d in inner.defined.items()}
        inner.holds = {i: of(values) for i, values in inner.holds.items()}
        for entry in inner.entries:
            entry.inputs, entry.outputs = of(entry.inputs), of(entry.outputs)


def tie_anew(top: Body) -> None:
    """Weights that both modes read, each in an entry of its own, are those of the first."""
    owners: Dict[str, str] = {}

    def visit(body: Body) -> None:
        for entry in body.entries:
            if entry.weights:
                shared = sorted({owners[w] for w in entry.weights if w in owners})
                entry.tie = shared[0] if shared else ""
                for weight in entry.weights:
                    owners.setdefault(weight, entry.owner or entry.path)
            if entry.body is not None:
                visit(entry.body)

    visit(top)
