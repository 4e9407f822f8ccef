"""Writes bodies as the spec's YAML."""
from __future__ import annotations

import math
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from gpuplan.entries import FILLED, Body, Entry, snake
from gpuplan.folding import Folder, Group, Template, template_of
from gpuplan.values import Value


def scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return call_scalar(value)


def call_scalar(value: Any) -> str:
    if isinstance(value, float):
        if math.isinf(value):  # the grammar's numbers are finite: the largest of fp32
            return repr(math.copysign(3.4028234663852886e+38, value))
        return repr(float(value))  # numpy's, too
    return str(value)


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def plain(name: str) -> str:
    """A name that is a YAML word for nothing is written in quotes; other words are names as they are."""
    return quoted(name) if name in ("null", "Null", "NULL") else name


# Words of the grammar, which an entry can be called only by `name:`.
STRUCTURE_WORDS = frozenset("name op block layers residual parallel if from tie frozen checkpoint keep when order repeat loop with "
                            "first last autocast grad".split())


def listed(names: Sequence[str]) -> str:
    return f"[{', '.join(plain(n) for n in dict.fromkeys(names))}]"


def follows(entry: Entry, current: Optional[Value]) -> bool:
    """Whether an entry reads what comes before it, as one without `from:` does; layers that need no input read none then."""
    return entry.inputs == [current] and entry.op not in FILLED


class Printer:
    """Writes the spec."""

    def __init__(self, folder: Folder):
        self.folder = folder
        self.printed: Dict[int, List[str]] = {}  # of a group
        self.defaults: Dict[int, Dict[str, Any]] = {}
        self.folded: Dict[Tuple[int, str], str] = {}  # of a body's entry that is part of a repeat, the repeat's name
        self.loss_line = 0  # of the model's own body, the first one of the loss

    def blocks(self, top: Body) -> List[str]:
        lines: List[str] = []
        for group in self.folder.groups.values():
            if group.bodies[0] is top or all(b.sequential for b in group.bodies):
                continue
            lines.append(f"  {plain(group.name)}:")
            if group.params:
                lines.append("    params: {" + ", ".join(self.param(group, n, s) for n, s in group.params) + "}")
            entries = self.entries(group.bodies[0], group.param_of)
            lines += self.order(group.bodies[0], "    ")
            lines.append("    layers:")
            lines += ["      " + line for line in entries]
        return lines

    def order(self, body: Body, indent: str) -> List[str]:
        made, registered = ([self.folded.get((id(body), n), n) for n in names] for names in (body.made, body.registered))
        if made == registered:
            return [f"{indent}order: {listed(made)}"] if made else []
        parts = [f"{word}: {listed(names)}" for word, names in (("made", made), ("registered", registered)) if names]
        return [f"{indent}order: {{{', '.join(parts)}}}"]

    def param(self, group: Group, name: str, slot: int) -> str:
        column = [self.folder.vectors[id(b)][slot] for b in group.bodies]
        common = max(dict.fromkeys(column), key=column.count)
        if column.count(common) * 2 > len(column):
            self.defaults.setdefault(id(group), {})[name] = common
            return f"{name}: {scalar(common)}"
        return f"{name}: required"

    # Entries of a body, numbers of `param_of`'s slots written as parameters.
    def entries(self, body: Body, param_of: Dict[int, str], start: int = 0) -> List[str]:
        names = self.names(body)
        lines: List[str] = []
        slot, current, i = start, body.inputs[0] if body.inputs else None, 0
        while i < len(body.entries):
            entry = body.entries[i]
            self.loss_line = len(lines) if i == body.loss_from else self.loss_line
            count, folded = self.repeat(body, i, param_of, slot, names)
            origin = self.origin(body, entry, current, names)
            if count > 1:
                lines += self.flow(entry.name.rpartition(".")[0], folded + origin)
                slot += sum(len(self.folder.vectors[id(e.body)]) for e in body.entries[i:i + count])
            else:
                written, used = self.entry(entry, param_of, slot, names, origin)
                lines += written
                slot += used
            last = body.entries[i + count - 1]
            current = last.outputs[0] if last.outputs else None
            for held in self.chunks(body.holds.get(i + count - 1, ())):
                after = body.entry_after(i + count - 1)
                refs = [self.name_of(body, v, names, after) for v in [current] + held]
                name = f"name: rebind_{i}, " if any(n.isdigit() for n in names.values()) else ""  # others' names are their places
                lines.append(f"- {{{name}op: Rebind(), from: [{', '.join(refs)}]}}")
            i += count
        return lines

    @staticmethod
    def chunks(values: Sequence[Value]) -> Iterable[List[Value]]:
        return (list(values[i:i + 7]) for i in range(0, len(values), 7))

    def origin(self, body: Body, entry: Entry, current: Optional[Value], names: Dict[int, str]) -> List[str]:
        if not entry.inputs or follows(entry, current):
            return []
        refs = [self.name_of(body, v, names, entry) for v in entry.inputs]
        return [f"from: {refs[0]}" if len(refs) == 1 else f"from: [{', '.join(refs)}]"]

    def name_of(self, body: Body, value: Value, names: Dict[int, str], user: Optional[Entry]) -> str:
        known = body.definition(value, user)
        if known is not None:
            entry, k = known
            name = names[id(entry)]
            return f"{name}.{k}" if len(entry.outputs) > 1 else plain(name)
        k = body.inputs.index(value)
        if body.input_names:
            return plain(body.input_names[k])
        return f"input.{k}" if k else "input"

    @staticmethod
    def definers(body: Body, values: Iterable[Value], user: Optional[Entry]) -> Iterable[int]:
        known = (body.definition(v, user) for v in values)
        return (id(d[0]) for d in known if d is not None)

    def names(self, body: Body) -> Dict[int, str]:
        """Every entry that something refers to has a name; others need none."""
        wanted = set()
        current = body.inputs[0] if body.inputs else None
        for i, entry in enumerate(body.entries):
            if not follows(entry, current):
                wanted.update(self.definers(body, entry.inputs, entry))
            current = entry.outputs[0] if entry.outputs else None
            if i in body.holds:
                after = body.entry_after(i)
                wanted.update(self.definers(body, body.holds[i] + [current], after))
        numeric = not body.sequential and any(e.name.isdigit() for e in body.entries)
        names: Dict[int, str] = {}
        taken = {e.name for e in body.entries if e.name}
        for i, entry in enumerate(body.entries):
            name = "" if body.sequential and entry.name == str(i) else entry.name
            if not name and (id(entry) in wanted or numeric):
                base, n = snake(entry.op) if entry.op else "block", 1
                name = base
                while name in taken or name in ("input", "inputs"):
                    n += 1
                    name = f"{base}_{n}"
                taken.add(name)
            names[id(entry)] = name
        return names

    def entry(self, entry: Entry, param_of: Dict[int, str], slot: int, names: Dict[int, str],
              origin: List[str]) -> Tuple[List[str], int]:
        name = plain(names[id(entry)])
        extra = origin + self.flags(entry)
        if entry.body is None:
            t = template_of(entry)
            call = self.filled(t, param_of, slot)
            if not extra and name not in STRUCTURE_WORDS:
                return [f"- {name}: {call}" if name else f"- {call}"], len(t.values)
            return self.flow(name, [f"op: {quoted(call)}"] + extra), len(t.values)
        used = len(self.folder.vectors[id(entry.body)])
        if entry.body.sequential:
            return self.sequential(entry, param_of, slot, name, extra), used
        return self.flow(name, [f"block: {plain(self.folder.of[id(entry.body)].name)}"] + self.given(entry.body, param_of, slot) + extra), used

    def sequential(self, entry: Entry, param_of: Dict[int, str], slot: int, name: str, extra: List[str]) -> List[str]:
        body = entry.body
        assert body is not None
        items = self.repeated_items(body, param_of, slot)
        if items is not None:
            return self.flow(name, items + extra)
        inner = self.entries(body, param_of, slot)
        if not extra and name not in STRUCTURE_WORDS:
            return ([f"- {name}:", "    layers:"] if name else ["- layers:"]) + ["      " + l if name else "    " + l for l in inner]
        head = ([f"name: {name}"] if name else []) + extra
        return ["- " + head[0]] + ["  " + h for h in head[1:]] + ["  layers:"] + ["    " + l for l in inner]

    @staticmethod
    def flags(entry: Entry) -> List[str]:
        flags = ["keep: true"] if entry.keep else []
        flags += [f"when: {entry.when}"] if entry.when else []
        flags += ([] if entry.autocast else ["autocast: false"]) + ([] if entry.grad else ["grad: false"])
        flags += [f"tie: {plain(entry.tie)}"] if entry.tie else []
        flags += [f"checkpoint: {'reentrant' if entry.reentrant else 'true'}"] if entry.checkpoint else []
        return flags + (["frozen: true"] if entry.frozen else [])

    @staticmethod
    def flow(name: str, parts: List[str]) -> List[str]:
        if name and name not in STRUCTURE_WORDS and not parts[0].startswith("op:") and not any(p.startswith("from:") for p in parts):
            return [f"- {name}: {{{', '.join(parts)}}}"]
        return ["- {" + ", ".join(([f"name: {name}"] if name else []) + parts) + "}"]

    @staticmethod
    def filled(t: Template, param_of: Dict[int, str], slot: int) -> str:
        pieces = t.text.split("\0")
        out = pieces[0]
        for k, value in enumerate(t.values):
            out += ("$" + param_of[slot + k] if slot + k in param_of else call_scalar(value)) + pieces[k + 1]
        return out

    def given(self, body: Body, param_of: Dict[int, str], slot: int) -> List[str]:
        values = self.with_values(body, param_of, slot)
        return ["with: {" + ", ".join(f"{n}: {v}" for n, v in values.items()) + "}"] if values else []

    def with_values(self, body: Body, param_of: Dict[int, str], slot: int) -> Dict[str, str]:
        """What a block is called with, defaults left out."""
        group = self.folder.of[id(body)]
        defaults = self.defaults.get(id(group), {})
        vector = self.folder.vectors[id(body)]
        values: Dict[str, str] = {}
        for name, own in group.params:
            if slot + own in param_of:
                values[name] = "$" + param_of[slot + own]
            elif name not in defaults or defaults[name] != vector[own]:
                values[name] = scalar(vector[own])
        return values

    # --- repeats

    def repeated_items(self, body: Body, param_of: Dict[int, str], slot: int) -> Optional[List[str]]:
        """An nn.Sequential of one block over and over."""
        if len(body.entries) < 2 or any(e.body is None or e.body.sequential or e.name != str(i) or self.flags(e)
                                        for i, e in enumerate(body.entries)):
            return None
        return self.run_of(body.entries, param_of, slot, [])

    def repeat(self, body: Body, i: int, param_of: Dict[int, str], slot: int,
               names: Dict[int, str]) -> Tuple[int, List[str]]:
        """How many entries from i on are one loop over an nn.ModuleList, and how it is written."""
        first = body.entries[i]
        prefix, _, number_ = first.name.rpartition(".")
        if body.sequential or first.body is None or first.body.sequential or number_ != "0" or not prefix:
            return 1, []
        run = [first]
        for j in range(i + 1, len(body.entries)):
            entry, before = body.entries[j], body.entries[j - 1]
            if entry.name != f"{prefix}.{j - i}" or entry.body is None or (j - 1) in body.holds or self.flags(before) or self.flags(entry) \
                    or self.folder.of[id(entry.body)] is not self.folder.of[id(first.body)] \
                    or not entry.inputs or entry.inputs[0] is not before.outputs[0] or len(before.outputs) != 1 \
                    or entry.inputs[1:] != first.inputs[1:]:
                break
            run.append(entry)
        inner = {id(e) for e in run}
        others = [v for e in body.entries if id(e) not in inner for v in e.inputs] + [v for h in body.holds.values() for v in h]
        beyond = any(e.name.startswith(prefix + ".") and id(e) not in inner for e in body.entries)
        used = any(v in body.defined and any(id(d[0]) in inner and d[0] is not run[-1] for d in body.defined[v]) for v in others)
        if len(run) < 2 or beyond or used or i + len(run) - 1 in body.holds or prefix in body.names:
            return 1, []
        written = self.run_of(run, param_of, slot, ["loop: true"])
        if written is None:
            return 1, []
        names[id(run[-1])] = prefix
        self.folded.update({(id(body), e.name): prefix for e in run})
        return len(run), written

    def run_of(self, run: Sequence[Entry], param_of: Dict[int, str], slot: int, extra: List[str]) -> Optional[List[str]]:
        group = self.folder.of[id(run[0].body)]
        given = []
        for entry in run:
            if self.folder.of[id(entry.body)] is not group:
                return None
            given.append(self.with_values(entry.body, param_of, slot))
            slot += len(self.folder.vectors[id(entry.body)])
        common = given[1] if len(given) > 1 else given[0]
        middle = given[1:-1] if len(given) > 2 else []
        if any(g != common for g in middle):
            return None
        first, last = self.differing(given[0], common, group), self.differing(given[-1], common, group)
        parts = [f"block: {plain(group.name)}", f"repeat: {len(run)}"] + extra
        for word, values in (("with", common), ("first", first), ("last", last)):
            if values:
                parts.append(f"{word}: {{" + ", ".join(f"{n}: {v}" for n, v in values.items()) + "}")
        return parts

    def differing(self, given: Dict[str, str], common: Dict[str, str], group: Group) -> Dict[str, str]:
        defaults = self.defaults.get(id(group), {})
        names = [n for n, _ in group.params if given.get(n) != common.get(n)]
        return {n: given.get(n, scalar(defaults[n]) if n in defaults else "") for n in names}
