#!/usr/bin/env python3
"""Every recorded case of tests/shadow and tests/oracle through the exporter:

    python tests/torch/export_cases.py --gpuplan build/gpuplan [--table FILE] [CASE...]

For each case the model is built as its recording says and exported; for each run of the case the export's plan is
compared with that of the hand-written spec in every figure that a plan has (bytes requested, allocated and reserved of
every phase, tensors, categories, multiply-adds and FLOPs), and with what was recorded where the scoreboard compares
that: the phases of the first and the steady step of tests/shadow, tensors, parameters and multiply-adds of
tests/oracle. --table writes a line for each case and recording. Recordings of another major release of transformers
than the installed one are left out: its models are other code. Exits with 1 where a plan differs from the hand-written
spec's, or an error that was recorded is not met.
"""
from __future__ import annotations

import argparse
import functools
import json
import re
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(ROOT / "tools/python"))
sys.path.insert(0, str(ROOT / "tests/recorders"))
sys.path.insert(0, str(ROOT / "tests/shadow_recorded"))
import case_models  # noqa: E402
import models as recorded_models  # noqa: E402
import nasty_models  # noqa: E402
import gpuplan as exporter  # noqa: E402
from gpuplan.construction import Construction, constructed  # noqa: E402
from gpuplan.without_data import call_on_batch  # noqa: E402

COLUMNS = ["case", "recording", "runs", "runs equal to the hand-written spec", "figures", "figures equal", "runs equal to what was recorded",
           "recorded figures", "recorded figures equal", "worst peak, %"]


class Case(NamedTuple):
    """batch: of so many samples, on the meta device, with the targets of `loss`."""

    make: Callable[[], torch.nn.Module]
    batch: Callable[[int], Any]
    forward: Callable[[torch.nn.Module, Any], Any]
    loss: Optional[Callable[[torch.nn.Module, Any, Any], Any]]


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(*shape, dtype=dtype, device="meta")


def labels(*shape: int) -> torch.Tensor:
    return zeros(*shape, dtype=torch.int64)


def on_meta_device(batch: Callable[[int], Any], samples: int) -> Any:
    with torch.device("meta"):
        return batch(samples)


# --- the models -------------------------------------------------------------------------------------------------------


def with_targets(make: Callable[[], torch.nn.Module], batch: Callable[[int], Tuple],
                 loss: Callable[[Any, torch.Tensor], Any] = F.cross_entropy) -> Case:
    """The last of the batch is what the loss compares with."""
    return Case(make, batch, lambda model, batch: model(*batch[:-1]), lambda model, out, batch: loss(out, batch[-1]))


def images(size: int, channels: int = 3) -> Callable[[int], Tuple]:
    return lambda b: (zeros(b, channels, size, size), labels(b))


def vision(name: str, **keywords: Any) -> Case:
    def make() -> torch.nn.Module:
        import torchvision

        return torchvision.models.get_model(name, **keywords)

    return with_targets(make, images(224))


def segmentation(name: str) -> Case:
    def make() -> torch.nn.Module:
        import torchvision

        return torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=21, aux_loss=None)

    return with_targets(make, lambda b: (zeros(b, 3, 224, 224), labels(b, 224, 224)), lambda out, y: F.cross_entropy(out["out"], y))


def mean_of_output(make: Callable[[], torch.nn.Module], batch: Callable[[int], torch.Tensor]) -> Case:
    return Case(make, batch, call_on_batch, lambda model, out, batch: out.mean())


def of_transformers(cls: str, options: Dict[str, Any]) -> Callable[[], torch.nn.Module]:
    def make() -> torch.nn.Module:
        import transformers

        kind = getattr(transformers, cls)
        return kind(kind.config_class(**options))

    return make


def language_model(cls: str, seq: int, **options: Any) -> Case:
    """Called with input_ids, which are the labels too where it trains; the loss is its own."""
    return Case(of_transformers(cls, options), lambda b: {"input_ids": labels(b, seq)},
                lambda m, batch: m(input_ids=batch["input_ids"], labels=batch["input_ids"] if m.training else None), None)


def with_labels(cls: str, name: str, batch: Callable[[int], torch.Tensor], *shape: int, **options: Any) -> Case:
    return Case(of_transformers(cls, options), lambda b: {name: batch(b), "labels": labels(b, *shape)},
                lambda m, batch: m(**{name: batch[name]}, labels=batch["labels"] if m.training else None), None)


def classifier(cls: str, seq: int, **options: Any) -> Case:
    return with_labels(cls, "input_ids", lambda b: labels(b, seq), **options)


def gpt2_by_hand(**options: Any) -> Case:
    return with_targets(lambda: case_models.Gpt2(**options), lambda b: (labels(b, 256), labels(b, 256)),
                        lambda out, y: F.cross_entropy(out.view(-1, out.size(-1)), y.view(-1)))


NASTY = "nasty_"  # tests/recorders/nasty_models.py
TORCHVISION = ("alexnet convnext_tiny mobilenet_v2 mobilenet_v3_large resnet18 resnet50 resnext50_32x4d squeezenet1_1 swin_t "
               "vgg11 densenet121 efficientnet_b0 resnet34 resnet101 shufflenet_v2_x1_0 vgg16 vit_b_16 wide_resnet50_2").split()
TINYLLAMA = {"vocab_size": 32000, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32,
             "num_key_value_heads": 4, "max_position_embeddings": 2048, "use_cache": False}
CASES: Dict[str, Case] = {
    **{name: vision(name) for name in TORCHVISION},
    "googlenet": vision("googlenet", aux_logits=False, init_weights=False),
    "fcn_resnet50": segmentation("fcn_resnet50"),
    "vit_b_16_sdpa": vision("vit_b_16"),
    "mlp": with_targets(recorded_models.mlp, lambda b: (zeros(b, 784), labels(b))),
    "lenet": with_targets(recorded_models.lenet, images(28, 1)),
    "conv_chain": mean_of_output(recorded_models.conv_chain, lambda b: zeros(b, 3, 26, 26)),
    "wide_4096": with_targets(recorded_models.wide_4096, lambda b: (zeros(b, 1024), labels(b))),
    "embed_classifier": with_targets(recorded_models.EmbeddingClassifier, lambda b: (labels(b, 64), labels(b))),
    "unet_small": with_targets(recorded_models.UNet, lambda b: (zeros(b, 3, 128, 128), labels(b, 128, 128))),
    "toy_mul_mean": mean_of_output(case_models.MulMean, lambda b: zeros(b, 256, 256, 64).requires_grad_()),
    "ex1_linear_chain": mean_of_output(lambda: case_models.linear_chain([128, 64, 32, 16, 8, 4, 5], False), lambda b: zeros(b, 15)),
    "ex2_linear_relu_chain": mean_of_output(lambda: case_models.linear_chain([128, 64, 32, 16], True), lambda b: zeros(b, 16)),
    "gpt2_s256": gpt2_by_hand(),
    "gpt2_s256_lossonly": gpt2_by_hand(),
    "gpt2_s256_nodrop": gpt2_by_hand(p=0.0),
    "gpt2_s256_fused": gpt2_by_hand(p=0.0, fused=True),
    "bert_encoder": with_targets(case_models.Bert, lambda b: (labels(b, 128), labels(b))),
    "gpt2": language_model("GPT2LMHeadModel", 256, use_cache=False),
    "bert_base": classifier("BertForSequenceClassification", 128),
    "vit_base": with_labels("ViTForImageClassification", "pixel_values", lambda b: zeros(b, 3, 224, 224), num_labels=1000),
    "tinyllama_1b": language_model("LlamaForCausalLM", 2048, **TINYLLAMA),
    "llama2_7b": language_model("LlamaForCausalLM", 2048, vocab_size=32000, use_cache=False),
}
CASES["ex3_conv_chain"] = CASES["conv_chain"]
CASES.update({f"{NASTY}{name}": with_targets(make, functools.partial(on_meta_device, batch), loss)
              for name, (make, _, batch, loss) in nasty_models.MODELS.items()})
CASES["nasty_tied"] = CASES["nasty_tied"]._replace(batch=lambda b: (labels(b, 128), labels(b, 128)),
                                                   loss=lambda model, out, batch: F.cross_entropy(out, batch[1].view(-1)))


# --- recordings and their runs ----------------------------------------------------------------------------------------


class Run(NamedTuple):
    """One plan: the program's flags and what was recorded of it, by the names of figures()."""

    name: str
    flags: List[str]
    recorded: Dict[str, int]
    attention: str = ""  # transformers' attn_implementation


class Recording(NamedTuple):
    """transformers: the release that it ran, "" where it ran none."""

    case: str
    name: str
    runs: List[Run]
    transformers: str = ""
    error: str = ""


IMPLEMENTATIONS = {"foreach": "foreach", "forloop": "for-loop", "fused": "fused"}


def hand_written(case: str, folder: Path) -> str:
    """As the scoreboard's spec_of: a model made for the recordings, or one of the zoo."""
    recorded = ROOT / f"tests/shadow/models/{case}.yaml"
    if not recorded.exists():
        return str(ROOT / "configs/models" / ({"ex3_conv_chain": "conv_chain"}.get(case, case.removesuffix("_b3")) + ".yaml"))
    copy = folder / f"hand.{case}.yaml"  # what it extends is the zoo's, which may have its name
    copy.write_text(re.sub(r"^extends: ", f"extends: {ROOT}/configs/models/", recorded.read_text(), flags=re.M))
    return str(copy)


def flags_of(run: Dict[str, Any]) -> List[str]:
    """As the scoreboard's config_of."""
    flags = ["--batch", str(run["batch"]), "--precision", run.get("dtype", "fp32"), "--loop", run.get("loop") or "function"]
    if run["mode"] == "infer":
        flags += ["--mode", "infer"]
    else:
        flags += ["--opt", run["opt"], "--opt-impl", IMPLEMENTATIONS[run.get("impl", "foreach")]]
    for key, flag in (("amp", "--amp"), ("micro", "--micro-batches"), ("alloc_conf", "--alloc-conf")):
        if run.get(key):
            flags += [flag, str(run[key])]
    for key, words in (("clip", ["--clip-grad-norm"]), ("channels_last", ["--layout", "nhwc"]), ("checkpoint", ["--checkpoint", "block"]),
                       ("in_backward", ["--optimizer-in-backward"]), ("master", ["--master", "fp32"])):
        if run.get(key):
            flags += words
    offloaded = [what for what in ("optimizer", "saved") if run.get(f"offload_{what}")]
    return flags + (["--offload", ",".join(offloaded)] if offloaded else []) + (["--attention", "eager"] if run.get("attn") == "eager" else [])


def readings(prefix: str, reading: Dict[str, int]) -> Dict[str, int]:
    return {f"{prefix}{kind}_bytes": reading[kind] for kind in ("requested", "allocated", "reserved")}


def phases_of(run: Dict[str, Any]) -> Dict[str, int]:
    found: Dict[str, int] = {}
    for step in ("first", "steady"):
        for phase, values in run.get(f"{step}_step", {}).items():
            if phase == "end":
                found.update(readings(f"{step} end ", values))
            elif phase not in ("peak", "peak_phase"):
                found.update(readings(f"{step} {phase} ", values["live"]))
                found.update(readings(f"{step} {phase} peak_", values["peak"]))
    found.update(readings("peak ", run["steady_step"]["peak"]))
    for key, figure in (("optimizer_state", "optimizer_state"), ("gradients", "gradients"), ("inputs", "inputs")):
        if key in run:
            found[f"bytes {figure}"] = run[key]
    if "saved" in run:
        found["bytes saved_for_backward"] = run["saved"]["bytes"]
    return found


def shadow_recordings() -> Iterator[Recording]:
    for file in sorted((ROOT / "tests/shadow/results").glob("*/*.json")):
        recorded = json.loads(file.read_text())
        gpu, version, *rest = file.parent.name.replace("torch", "").replace("2.", "2_").split(".")
        where = ["--gpu", {"a100": "a100-80gb"}.get(gpu, gpu), "--pytorch", version.replace("_", "."),
                 "--scratch", "no-cudnn" if "nocudnn" in rest else "full"]
        runs = [Run(run["recipe"], flags_of(run) + where, phases_of(run), run.get("attn", ""))
                for run in recorded["runs"] if "error" not in run]
        yield Recording(recorded["case"], file.parent.name, runs, recorded["versions"].get("transformers", ""))


# What a plan's JSON has of the scoreboard's.
TRAINED = {"bwd_start": "end_of_forward", "fwd_peak": "forward", "after_model_load": "after_model"}


def tensors_of(train: Dict[str, Any], names: Dict[str, str]) -> Dict[str, int]:
    return {f"tensor_peak {figure}_bytes": train[key] for key, figure in names.items() if key in train}


def layers_of(d: Dict[str, Any]) -> Dict[str, int]:
    """Parameters and multiply-adds of each module, and what autograd saves first in it, where it is called once."""
    rows = [dict(zip(d["layer_columns"], row)) for row in d["layers"]]
    calls = Counter(row["name"] for row in rows)
    return {f"layer {row['name']} {row['type']} {key}": row[name] for row in rows if calls[row["name"]] == 1 and not row["type"].startswith("op:")
            for name, key in (("params", "parameters"), ("macs", "forward_macs"), ("saved_bytes", "saved_bytes"))
            if not (name == "params" and d["case"].startswith("gpt2") and row["name"] == "lm_head")}  # tied, and counted with the table


def oracle_runs(d: Dict[str, Any]) -> Iterator[Tuple[str, Run]]:
    flags = ["--batch", str(d["batch"]), "--scratch", "none"]
    infers = flags + ["--pytorch", "1.13", "--mode", "infer"]
    flags += ["--loop", "loss_only" if d.get("output_released_before_backward") else "function"]
    old = flags + ["--pytorch", "1.13"]
    counts = {"model parameters": d["params"]["count"], "model buffers": d["buffers"]["count"], "bytes parameters": d["params"]["bytes"],
              "bytes buffers": d["buffers"]["bytes"], "compute forward_macs": d["macs"]["forward"]}
    saved = d["saved_for_backward"]["cuda_bytes"]
    yield "1.13", Run("train", old + ["--opt", "sgd", "--opt-impl", "for-loop"],
                      {**counts, "bytes saved_for_backward": saved, **tensors_of(d["train"], {**TRAINED, "bwd_peak": "backward"}),
                       **layers_of(d)})
    for name, expected in d.get("optimizers", {}).items():
        for implementation, suffix in (("for-loop", "for_loop"), ("foreach", "foreach_1_13")):
            if isinstance(expected, dict):
                yield "1.13", Run(f"{name} {implementation}", old + ["--opt", name.replace("sgd_", ""), "--opt-impl", implementation],
                                  {"bytes optimizer_state": expected["state_bytes"], "tensor_peak bytes": expected[f"step_peak_{suffix}"],
                                   "tensor_peak optimizer_bytes": expected["opt_step_live"] + expected[f"transient_{suffix}"]})
    inference = d["inference"]
    yield "1.13", Run("infer", infers,
                      {"tensor_peak forward_bytes": inference["peak"]})
    if d["case"] != "bert_encoder":  # from 2.0 on its attention is a fused kernel, which the oracle's PyTorch does not have
        yield "2.x", Run("train", flags + ["--opt", "sgd"],
                         {**counts, "bytes saved_for_backward": d["pytorch_2x"]["saved_cuda_bytes"],
                          **tensors_of(d["pytorch_2x"]["train"], TRAINED)})


# The oracle's PyTorch has no fused attention. These cases stand in for it with a function of Python's, which keeps no
# random numbers and rounds nothing up as the kernel does: the export has the kernel itself, in PyTorch 2.
STANDING_IN = ("gpt2_s256_fused", "vit_b_16_sdpa")
STANDING_IN_BOUND = 0.02  # %, of a peak


def oracle_recordings() -> Iterator[Recording]:
    for file in sorted((ROOT / "tests/oracle").glob("*.json")):
        recorded = json.loads(file.read_text())
        if "error" in recorded:
            yield Recording(recorded["case"], f"oracle b{recorded['batch']}", [], error=recorded["error"]["module"])
            continue
        runs: Dict[str, List[Run]] = {}
        for version, run in oracle_runs(recorded):
            runs.setdefault(version, []).append(run)
        if recorded["case"] in STANDING_IN:
            del runs["1.13"]
        for version, of_version in runs.items():
            yield Recording(recorded["case"], f"oracle {version} b{recorded['batch']}", of_version)


# --- plans ------------------------------------------------------------------------------------------------------------


def figures(gpuplan: str, model: str, flags: List[str]) -> Dict[str, int]:
    """Every number of a plan's JSON but those of places in the model."""
    done = subprocess.run([gpuplan, model, *flags, "--format", "json"], capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        raise RuntimeError(f"{model} {' '.join(flags)}: {done.stderr.strip()}")
    plan = json.loads(done.stdout)
    found = {f"{part} {key}": value for part in ("model", "bytes", "tensor_peak", "peak", "compute") for key, value in plan[part].items()
             if isinstance(value, int)}
    found.update({f"layer {row['name']} {row['type']} {key}": row[key] for row in plan["layers"]
                  for key in ("parameters", "forward_macs", "saved_bytes")})
    for row in plan["phases"]:
        found.update({f"{row['step']} {row['phase']} {key}": value for key, value in row.items() if isinstance(value, int)})
    return found


def export(case: Case, attention: str, spec: Path) -> None:
    construction = Construction()
    model = constructed(case.make, construction)
    if attention:
        model.set_attn_implementation(attention)
    exporter.export(model, case.batch(2), str(spec), forward=case.forward, loss=case.loss, construction=construction)


class Exports:
    """The specs, each written once."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.known: Dict[Tuple[str, str], Path] = {}

    def of(self, case: str, attention: str) -> str:
        known = self.known.get((case, attention))
        if known is None:
            known = self.folder / (case + ("." + attention if attention else "") + ".yaml")
            export(CASES[case], attention, known)
            self.known[case, attention] = known
        return str(known)


# Figures of how a spec is written: modules have rows, and what a frame names counts as read.
OF_WRITING = ("model layers", "compute bytes_moved")


class Score:
    def __init__(self) -> None:
        self.runs = self.same_runs = self.figures = self.same_figures = 0
        self.met_runs = self.recorded = self.met = 0
        self.worst = 0.0
        self.missed: List[str] = []

    def add(self, run: Run, exported: Dict[str, int], by_hand: Dict[str, int]) -> List[str]:
        keys = [key for key in by_hand.keys() | exported.keys() if not key.startswith("layer ") and key not in OF_WRITING]
        other = [key for key in keys if by_hand.get(key) != exported.get(key)]
        # What the catalog has as one layer has no rows of its modules, and an operation may be none.
        recorded = {key: value for key, value in run.recorded.items() if key in exported or not key.startswith("layer ")}
        missed = [key for key, value in recorded.items() if exported.get(key) != value]
        self.missed += [f"{run.name} {key}: {exported.get(key)}, recorded {recorded[key]}" for key in missed]
        self.runs += 1
        self.same_runs += not other
        self.figures += len(keys)
        self.same_figures += len(keys) - len(other)
        self.met_runs += not missed
        self.recorded += len(recorded)
        self.met += len(recorded) - len(missed)
        for key in missed:
            if "peak" in key and key in exported and recorded[key]:
                error = 100 * (exported[key] / recorded[key] - 1)
                self.worst = error if abs(error) > abs(self.worst) else self.worst
        return [f"{key}: {exported.get(key)}, by hand {by_hand.get(key)}, recorded {run.recorded.get(key)}" for key in sorted(other)]

    def join(self, other: "Score") -> None:
        for key in ("runs", "same_runs", "figures", "same_figures", "met_runs", "recorded", "met"):
            setattr(self, key, getattr(self, key) + getattr(other, key))
        self.worst = max(self.worst, other.worst, key=abs)

    def row(self, recording: Recording) -> str:
        return "\t".join([recording.case, recording.name, *map(str, (
            self.runs, self.same_runs, self.figures, self.same_figures, self.met_runs, self.recorded, self.met)), f"{self.worst:+.3f}"])


def check(gpuplan: str, recording: Recording, exports: Exports, shown: int) -> Tuple[Score, List[str]]:
    score, told = Score(), []
    bound = STANDING_IN_BOUND if recording.case in STANDING_IN else 0.0
    for run in recording.runs:
        other = score.add(run, figures(gpuplan, exports.of(model_of(recording), run.attention), run.flags),
                          figures(gpuplan, hand_written(recording.case, exports.folder), run.flags))
        if other and not bound and not recording.case.startswith(NASTY):
            told += [f"{run.name}: {len(other)} figures differ ({' '.join(run.flags)})", *(f"  {text}" for text in other[:shown])]
    if abs(score.worst) > bound > 0:
        told.append(f"a peak is {score.worst:+.3f} % off what was recorded, more than {bound} %")
    # Their hand-written specs hold in a name what Python's forward does where the recordings tell.
    if recording.case.startswith(NASTY):
        told += [f"not as recorded: {text}" for text in score.missed]
    return score, told


def check_error(recording: Recording, exports: Exports) -> List[str]:
    """PyTorch refuses what a module of the model is given, and so does the exporter, which names the module."""
    try:
        exports.of(recording.case, "")
    except exporter.ExportError as e:
        named = re.search(r"(\S+) \(\w+\) does not run on this batch", str(e))
        return [] if named and named[1] == recording.error else [f"recorded: {recording.error}; the exporter: {e}"]
    return [f"recorded: {recording.error} is refused; exported all the same"]


def major(release: str) -> int:
    return int(release.partition(".")[0])


def installed_transformers() -> int:
    import transformers

    return major(transformers.__version__)


def recordings(wanted: List[str]) -> List[Recording]:
    every = [r for r in [*shadow_recordings(), *oracle_recordings()] if model_of(r) in CASES]
    return [r for r in every if not wanted or model_of(r) in wanted]


def model_of(recording: Recording) -> str:
    return recording.case.removesuffix("_b3")


def outcome(gpuplan: str, recording: Recording, exports: Exports, shown: int) -> Tuple[Score, str, List[str]]:
    """Its figures, a line and what is wrong."""
    try:
        if recording.error:
            return Score(), "PyTorch's error", check_error(recording, exports)
        score, told = check(gpuplan, recording, exports, shown)
    except Exception as e:  # of other people's models: whatever it raises is its result
        return Score(), "not planned", [f"{type(e).__name__}: {str(e)[:400]}"]
    return score, f"{score.same_runs} of {score.runs} runs equal, {score.met_runs} to what was recorded, worst peak {score.worst:+.3f} %", told


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpuplan", default="build/gpuplan")
    parser.add_argument("--specs", type=Path, help="where to keep what was written")
    parser.add_argument("--table", type=Path)
    parser.add_argument("--show", type=int, default=3, help="figures of a run that differs")
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    unknown = set(options.cases) - set(CASES)
    if unknown:
        raise SystemExit(f"no case: {', '.join(sorted(unknown))}")
    rows, failed, total = ["\t".join(COLUMNS)], 0, Score()
    with tempfile.TemporaryDirectory() as temporary:
        exports = Exports(options.specs or Path(temporary))
        for recording in recordings(options.cases):
            if recording.transformers and major(recording.transformers) != installed_transformers():
                print(f"left  {recording.case}, {recording.name}: recorded with transformers {recording.transformers}", flush=True)
                continue
            score, line, told = outcome(options.gpuplan, recording, exports, options.show)
            total.join(score)
            failed += bool(told)
            rows.append(score.row(recording) if score.runs else "\t".join([recording.case, recording.name, "FAIL" if told else line]))
            print(f"{'FAIL' if told else 'ok  '}  {recording.case}, {recording.name}: {line}", *told,
                  *(f"not as recorded: {text}" for text in score.missed[:options.show]), sep="\n      ", flush=True)
    if options.table:
        options.table.write_text("\n".join(rows) + "\n")
    print(f"{total.same_runs} of {total.runs} runs and {total.same_figures:,} of {total.figures:,} figures equal to the hand-written specs'; "
          f"{total.met_runs} runs and {total.met:,} of {total.recorded:,} figures to what was recorded, worst peak {total.worst:+.3f} %")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
