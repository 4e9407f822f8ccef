#!/usr/bin/env python3
"""Writes the templates that gpuplan makes a spec of a config.json with, for families of transformers that nobody wrote a spec of by hand:

    GPUPLAN=build/gpuplan python tests/recorders/hugging_face_families.py [NAME...]      # configs/families/NAME.yaml

The class is exported at several sizes of its configuration. What differs between these specs is a number; each is found again as an
expression of the configuration's sizes (`${heads*head}`), the same one at all of them. Lines of a numbered layer are one line for each
kind of layer. A flag is tried in both ways: either the spec stays what it is, or other lines are kept for it, or a configuration that
has it otherwise is refused. tests/huggingface compares what comes of it with transformers."""
from __future__ import annotations

import argparse
import difflib
import itertools
import json
import math
import os
import pathlib
import re
import sys
import tempfile
import warnings
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "python"))
import gpuplan as exporter  # noqa: E402
from gpuplan.construction import constructed  # noqa: E402
from hugging_face_family_table import FAMILIES, POSITIVE, Family, Sizes, lengths_at  # noqa: E402

NUMBER = re.compile(r"(?<![\w.\]}])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.])")
SLOT = "\0"


def nested(values: Dict[str, Any]) -> Dict[str, Any]:
    """text_config.hidden_size is one of a configuration within."""
    found: Dict[str, Any] = {}
    for key, value in values.items():
        *outer, last = key.split(".")
        at = found
        for name in outer:
            at = at.setdefault(name, {})
        at[last] = value
    return found


def flat(values: Dict[str, Any]) -> Dict[str, Any]:
    found: Dict[str, Any] = {}
    for key, value in values.items():
        within = isinstance(value, dict) and key.endswith("_config")
        found.update({f"{key}.{k}": v for k, v in value.items()} if within else {key: value})
    return found


def config_of(kind: str, family: Family, sizes: Dict[str, Any]) -> Any:
    config = transformers.AutoConfig.for_model(kind, **nested({**family.fixed, **sizes}))
    if hasattr(config, "use_cache"):
        config.use_cache = False  # as a trainer has it
    return config


def exported(kind: str, family: Family, sizes: Dict[str, Any], lengths: Sizes) -> List[str]:
    """The lines of the spec, from its variables on."""
    config = config_of(kind, family, sizes)
    model = constructed(lambda: getattr(transformers, family.cls)(config)).train()
    with tempfile.TemporaryDirectory() as folder:
        spec = pathlib.Path(folder) / "model.yaml"
        exporter.export(model, family.batch(config, lengths), str(spec), loss=family.loss, name=kind)
        lines = spec.read_text().splitlines()
    lines = [line for line in lines if line != "construction: []"]  # which a config.json does not say of a model
    return lines[next(i for i, line in enumerate(lines) if line.startswith(("vars:", "input"))):]


# --- what is numbered

def by_kinds(lines: List[str], stem: str, kinds: Sequence[str]) -> Tuple[List[str], Dict[str, str]]:
    """The lines with one `@STEM` instead of those of each layer, and what these are by kind: {i} and {previous} stand in them."""
    of_kind: Dict[str, str] = {}
    left: List[str] = []
    numbered = re.compile(rf"(?<![\w.]){re.escape(stem)}\.(\d+)(?![\w])")
    for line in lines:
        found = numbered.findall(line)
        if not found:
            left.append(line)
        elif line.strip().startswith("order:"):
            left.append(re.sub(rf"{re.escape(stem)}\.0(, {re.escape(stem)}\.\d+)*", f"@{stem}", line))
        elif re.match(rf"\s*- ({{name: )?{re.escape(stem)}\.\d+", line):
            i = int(found[0])
            text = line.replace(f"{stem}.{i - 1}", "{previous}").replace(f"{stem}.{i},", f"{stem}.{{i}},").replace(f"{stem}.{i}:", f"{stem}.{{i}}:")
            if i == 0:
                first = re.search(r"from: \[([\w.]+)", text)
                text = text.replace(f"[{first[1]},", "[{previous},", 1) if first else text
                left.append(f"@{stem} after {first[1] if first else ''}")
            kind = kinds[i]
            if of_kind.setdefault(kind, text) != text:
                raise SystemExit(f"layers of the kind {kind} differ:\n{of_kind[kind]}\n{text}")
        else:
            left.append(numbered.sub(lambda m: f"{stem}.{{last}}" if int(m[1]) == len(kinds) - 1 else m[0], line))
    return left, of_kind


# --- numbers as expressions of sizes

def numbers(lines: Sequence[str]) -> Tuple[str, List[str]]:
    text = "\n".join(lines)
    return NUMBER.sub(SLOT, text), NUMBER.findall(text)


def candidates(of: Dict[str, Sequence[int]]) -> List[Tuple[str, List[float]]]:
    """Expressions of variables, and what they are at each configuration; the plain ones first."""
    one = [(name, list(values)) for name, values in of.items()]
    found: List[Tuple[str, List[float]]] = list(one)
    found += [(f"{name} {'+-'[n < 0]} {abs(n)}", [v + n for v in values]) for name, values in one for n in (1, -1, 2)]
    found += [(f"{name}*{name}{more}", [v * v + (more != "") for v in values]) for name, values in one for more in ("", " + 1")]
    for factor in (2, 3, 4, 8):
        found += [(f"{factor}*{name}", [factor * v for v in values]) for name, values in one]
        found += [(f"{name}//{factor}", [v // factor for v in values]) for name, values in one if all(v % factor == 0 for v in values)]
    for (a, x), (b, y) in itertools.permutations(one, 2):
        if a < b:
            found += [(f"{a}*{b}", [v * w for v, w in zip(x, y)]), (f"{a} + {b}", [v + w for v, w in zip(x, y)]),
                      (f"2*{a}*{b}", [2 * v * w for v, w in zip(x, y)])]
        found += [(f"{a} - {b}", [v - w for v, w in zip(x, y)])]
        if all(v % w == 0 for v, w in zip(x, y)):
            found += [(f"{a}//{b}", [v // w for v, w in zip(x, y)]), (f"{a}//{b}//2", [v // w / 2 for v, w in zip(x, y)])]
    for (a, x), (b, y), (c, z) in itertools.permutations(one, 3):
        if b < c:
            found += [(f"{a}*({b} + {c})", [u * (v + w) for u, v, w in zip(x, y, z)])]
        if a < c:
            found += [(f"{a}*{c}//{b}", [u * w / v for u, v, w in zip(x, y, z)])]
        if a < b:
            found += [(f"{a}*{b} + {c}", [u * v + w for u, v, w in zip(x, y, z)]), (f"2*{a} + 2*{b}*{c}", [2 * u + 2 * v * w for u, v, w in zip(x, y, z)])]
    return found


class Unexplained(Exception):
    pass


def written(slot: Sequence[str], known: List[Tuple[str, List[float]]]) -> str:
    """A number of the spec: itself, `$name`, `${expression}`, or `{{1/sqrt(expression)}}`, `{{sqrt(expression)}}`."""
    if len(set(slot)) == 1:
        return slot[0]
    values = [float(n) for n in slot]
    for sign in ("", "-"):
        wanted = [-v for v in values] if sign else values
        for text, at in known:
            if at == wanted:
                return f"${text}" if text.isidentifier() and not sign else f"${{{sign}({text})}}" if sign else f"${{{text}}}"
    for text, at in known:
        if all(n > 0 and math.isclose(1 / math.sqrt(n), v, rel_tol=1e-12) for n, v in zip(at, values)):
            return f"{{{{1/sqrt({text})}}}}"
        if all(n > 0 and math.isclose(math.sqrt(n), v, rel_tol=1e-12) for n, v in zip(at, values)):
            return f"{{{{sqrt({text})}}}}"
    raise Unexplained(f"a number that is {', '.join(slot)}")


def generalized(texts: List[List[str]], variables: Dict[str, Sequence[int]]) -> List[str]:
    """One text for all configurations."""
    skeletons = [numbers(lines) for lines in texts]
    if len({skeleton for skeleton, _ in skeletons}) > 1:
        a, b = next((a, b) for (a, _), (b, _) in itertools.combinations(skeletons, 2) if a != b)
        changed = [line for line in difflib.unified_diff(a.split("\n"), b.split("\n"), lineterm="", n=0)][2:8]
        raise Unexplained("the specs differ in more than numbers:\n" + "\n".join(changed).replace(SLOT, "#"))
    known = candidates(variables)
    parts = skeletons[0][0].split(SLOT)
    slots = [written([found[i] for _, found in skeletons], known) for i in range(len(parts) - 1)]
    lines = "".join(part + slot for part, slot in zip(parts, slots + [""])).split("\n")
    return [re.sub(r"(?<=: )\$\{[^}]*\}", r'"\g<0>"', line) if re.search(r"(params|with): \{|shape: \[", line) else line for line in lines]


def with_reals(lines: List[str], reals: Dict[str, float]) -> List[str]:
    """`{{key}}` where the configuration's number is."""
    for key, value in reals.items():
        lines = [line.replace(repr(value), f"{{{{{key}}}}}") for line in lines]
    lines = [re.sub(r", padding_idx=\d+", "", line) for line in lines]  # which decides nothing of a plan
    # from_pretrained(dtype=) leaves the frequencies of rotations in fp32, as a default dtype does.
    lines = [re.sub(r"(inv_freq: Buffer\(.*dtype='float32')\)", r"\1, fixed=True)", line) for line in lines]
    # Mamba2Block casts its input to its norm's type, which an export in fp32 does not show.
    for i in [i for i, line in enumerate(lines) if line == "  Mamba2Block:"]:
        lines.insert(i + 2, '      - {op: "ToParameterType()"}')
    return [re.sub(r"base=[\d.e+]+", "base={{rope_theta}}", line) for line in lines]


def template(kind: str, family: Family, more: Dict[str, Any], reals: Dict[str, float]) -> Tuple[List[str], Dict[str, Dict[str, str]]]:
    """The lines, and those of each kind of what is numbered."""
    texts: List[List[str]] = []
    of_kinds: Dict[str, List[Dict[str, str]]] = {stem: [] for stem in family.kinds}
    variables: Dict[str, List[int]] = {name: [] for name in [*family.lengths, *family.variables.values()]}
    for at, sizes in enumerate(family.sizes):
        lengths = lengths_at(family, at)
        given = {**sizes, **more, **reals}
        config = config_of(kind, family, given)
        lines = with_reals(exported(kind, family, given, lengths), reals)
        for stem, kinds in family.kinds.items():
            lines, own = by_kinds(lines, stem, kinds(config.to_dict()))
            of_kinds[stem].append(own)
        texts.append(lines)
        for name, value in [*lengths.items(), *((variable, value_at(config, key)) for key, variable in family.variables.items())]:
            variables[name].append(value)
    for text in family.derived:
        rows = [dict(zip(variables, row)) for row in zip(*variables.values())]
        variables[f"({text})"] = [eval(text, {}, row) for row in rows]
    for stem, listed in of_kinds.items():
        names = sorted(set().union(*listed))
        for k, own in enumerate(listed):
            texts[k] = texts[k] + [f"#{stem} {name} {own.get(name, '')}" for name in names]
    lines = generalized(texts, variables)
    found: Dict[str, Dict[str, str]] = {stem: {} for stem in family.kinds}
    for line in [line for line in lines if line.startswith("#")]:
        stem, name, text = line[1:].split(" ", 2)
        found[stem][name] = text
    return [line for line in lines if not line.startswith("#")], found


# --- flags

Change = Tuple[str, str]


def changes(lines: List[str], others: List[str]) -> List[Change]:
    """What makes one text of the other: pieces of it that are there once."""
    found: List[Change] = []
    text = "\n".join(lines)
    for tag, a, b, c, d in difflib.SequenceMatcher(None, lines, others, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        before = after = 0
        while a == b or text.count("\n".join(lines[a - before:b + after])) > 1:
            if a - before > 0:
                before += 1
            else:
                after += 1
            if before > 6:
                after += 1
            if after > 6:
                raise Unexplained("a piece of the text that is there more than once")
            if a == b and text.count("\n".join(lines[a - before:b + after])) == 1:
                break
        found.append(("\n".join(lines[a - before:b + after]), "\n".join(lines[a - before:a] + others[c:d] + lines[b:b + after])))
    return found


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def word(value: Any) -> str:
    return '"[]"' if value == [] else value if isinstance(value, str) else json.dumps(value)


def value_at(config: Any, key: str) -> Any:
    """text_config.hidden_size: of a configuration within."""
    for name in key.split("."):
        config = getattr(config, name, None)
    return config


def default_of(kind: str, key: str) -> Any:
    return flat(transformers.AutoConfig.for_model(kind).to_dict()).get(key)


def harmless(key: str) -> bool:
    """What no forward reads."""
    return key.endswith(("_token_id", "_std", "_range")) or key.startswith(("output_", "return_", "_", "chunk_size")) or key in (
        "use_cache", "is_encoder_decoder", "is_decoder", "dtype", "torch_dtype", "transformers_version", "model_type", "architectures",
        "problem_type", "router_aux_loss_coef")


class Tried(NamedTuple):
    """What other values of a key do."""

    reals: Dict[str, float]  # they are numbers of the spec: a number that is nothing else's
    fixed: Dict[str, Any]  # the spec is another one: the value that it was made with


def tried(kind: str, family: Family) -> Tried:
    found = Tried({}, {k: v for k, v in family.fixed.items() if v == [] or not isinstance(v, (dict, list)) and not harmless(k.rpartition(".")[2])
                       and k not in family.besides})
    sizes, lengths = family.sizes[0], lengths_at(family, 0)
    plain = numbers(exported(kind, family, sizes, lengths))
    for key, value in flat(config_of(kind, family, sizes).to_dict()).items():
        known = {*family.flags, *family.variables, *family.besides, *found.fixed, *(most for most, _ in family.positions.values())}
        if key in known or harmless(key.rpartition(".")[2]) or not isinstance(value, (bool, int, float, str)):
            continue
        if isinstance(value, str) and "act" not in key:
            continue
        other: Any = not value if isinstance(value, bool) else 2 * value + 1 if isinstance(value, int) else \
            0.271828 + len(found.reals) / 1e4 if isinstance(value, float) else "relu" if value != "relu" else "gelu"
        before = plain
        if "eps" in key:  # of the layer's own default nothing is written
            before = numbers(exported(kind, family, {**sizes, key: 0.314159}, lengths))
        try:
            text, at = numbers(exported(kind, family, {**sizes, key: other}, lengths))
        except Exception as e:
            print(f"{kind}: {key}={other}: {type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}", file=sys.stderr)
            text, at = "", []
        if text != before[0]:
            found.fixed[key] = value
        elif at != before[1]:
            if isinstance(value, float) and all(float(n) == other for n, was in zip(at, before[1]) if n != was):
                found.reals[key] = other
            else:
                found.fixed[key] = value
    return found


def flags_of(kind: str, family: Family, base: List[str], reals: Dict[str, float]) -> Dict[str, Dict[str, List[Change]]]:
    """The changes for each value of a key that is not the configuration class's own."""
    chosen: Dict[str, Dict[str, List[Change]]] = {}
    for key, values in family.flags.items():
        for value in values:
            if value == POSITIVE:
                chosen.setdefault(key, {})[value] = changes(base, template(kind, family, {}, {**reals, key: 0.173205})[0])
            elif value != default_of(kind, key):
                chosen.setdefault(key, {})[word(value)] = changes(base, template(kind, family, {key: value}, reals)[0])
    return chosen


def document(kind: str, family: Family) -> str:
    defaults = {key: default_of(kind, key) for key in family.flags}
    values = tried(kind, family)

    base, of_kinds = template(kind, family, {}, values.reals)
    fixed, chosen = values.fixed, flags_of(kind, family, base, values.reals)
    out = [f"# {family.cls} of transformers {transformers.__version__}, by tests/recorders/hugging_face_families.py: not written by hand.",
           f"family: {kind}", f"class: {family.cls}", "sizes:"]
    configuration = transformers.AutoConfig.for_model(kind)
    for key, variable in family.variables.items():
        default = family.otherwise.get(key, value_at(configuration, key))
        out.append(f"  {key}: {{is: {variable}, default: {default}}}")
    text = "\n".join([*base, *(line for lines in of_kinds.values() for line in lines.values()),
                      *(new for values in chosen.values() for pieces in values.values() for _, new in pieces)])
    reals = sorted(set(re.findall(r"\{\{([\w.]+)\}\}", text)))
    if reals:
        out.append("numbers:")
        out += [f"  {key}: {(configuration.rope_parameters or {}).get(key) if key == 'rope_theta' else value_at(configuration, key)}" for key in reals]
    if fixed:
        out.append("fixed:")
        out += [f"  {key}: {word(value)}" for key, value in sorted(fixed.items())]
    if chosen:
        out.append("flags:")
        for key, values in chosen.items():
            out.append(f"  {key}:")
            out.append(f"    default: {quoted(word(defaults[key]))}")
            out.append(f"    made_with: {quoted(word(defaults[key]))}")
            for value, pieces in values.items():
                out.append(f"    {quoted(value)}:")
                out += [f"      - [{quoted(a)}, {quoted(b)}]" for a, b in pieces]
    if family.left_out:
        out.append("left_out:")
        out += [f"  {key}: {variable}" for key, variable in family.left_out.items()]
    out.append("lengths:")
    for name, (most, usual) in family.positions.items():
        limit = f"most: {most}, default: {value_at(configuration, most)}, " if most else ""
        out.append(f"  {name}: {{{limit}usual: {usual}}}")
    if of_kinds:
        out.append("numbered:")
        for stem, lines in of_kinds.items():
            out.append(f"  {stem}:")
            out += [f"    {name}: {quoted(line)}" for name, line in lines.items()]
    out += ["---", "gpuplan: 1", f"name: {kind}", "vars:"]
    example = {**lengths_at(family, 0), **{variable: value_at(config_of(kind, family, family.sizes[0]), key) for key, variable in family.variables.items()}}
    out += [f"  {name}: {value}" for name, value in example.items()]
    if base[0] == "vars:":
        base = base[1:]
    return "\n".join(out + base) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for kind in options.names or FAMILIES:
        file = ROOT / "configs" / "families" / f"{kind}.yaml"
        file.write_text(document(kind, FAMILIES[kind]))
        print(file.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
