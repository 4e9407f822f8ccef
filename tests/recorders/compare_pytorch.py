#!/usr/bin/env python3
"""Compares one training step as predicted by gpuplan, as run by gpuplan's executor on this machine's GPU, and as run by PyTorch.

    python3 tests/recorders/compare_pytorch.py resnet50 --batch 64 --opt adam [--amp bf16] [--record tests/reference/h200]

Needs torch with CUDA, and torchvision or transformers for the models that are theirs. Flags are gpuplan's. The exit
code is 1 where a predicted figure is further from PyTorch's than --tolerance, 4 where something is missing. Under
`gpuplan shadow --gpu h200 -- python3 tests/recorders/compare_pytorch.py ...` it runs without a GPU: memory is real,
times are not, and a recording says so. --record writes the figures as DIR/models.json, a list of runs, and
DIR/env.json, what they were made with; a run that is there already is replaced. tools/scoreboard replays what
tests/reference/ holds.
"""
import argparse
import datetime
import importlib.metadata
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHADOW = bool(os.environ.get("GPUPLAN_SHADOW_SESSION"))

IMAGES = "images [b,3,224,224], labels [b]; F.cross_entropy"
TOKENS = "input_ids [b,{seq}], labels = input_ids; the model's own loss"
LLAMA = ("transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=32000, hidden_size=2048, "
         "intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32, num_key_value_heads=4, "
         "max_position_embeddings=2048, use_cache=False))")
# Of the zoo: how PyTorch builds it, its batch and loss in the words of tests/shadow_recorded/cases.py, the number of
# values of each tensor of integers, and its default sequence length.
MODELS = {
    "mlp": ("", "vectors [b,784], labels [b]; F.cross_entropy", {"labels": 10}, None),
    "resnet50": ("torchvision.models.resnet50()", IMAGES, {"labels": 1000}, None),
    "mobilenet_v2": ("torchvision.models.mobilenet_v2()", IMAGES, {"labels": 1000}, None),
    "vgg11": ("torchvision.models.vgg11()", IMAGES, {"labels": 1000}, None),
    "gpt2": ("transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False))", TOKENS, {"input_ids": 50257}, 1024),
    "bert_base": ("transformers.BertForSequenceClassification(transformers.BertConfig())",
                  "input_ids [b,{seq}], labels [b]; the model's own loss", {"input_ids": 30522, "labels": 2}, 128),
    "tinyllama_1b": (LLAMA, TOKENS, {"input_ids": 32000}, 2048),
}
ALIASES = {"tinyllama": "tinyllama_1b"}
OPTIMIZERS = ("sgd", "momentum", "adam", "adamw", "rmsprop", "adagrad", "adadelta", "nadam", "radam", "adamax")
ROWS = (("forward", "peak in forward and loss"), ("backward", "peak in backward"), ("step", "peak in the optimizer"))


class Missing(Exception):
    """What the comparison needs and does not find here."""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0],
                                     epilog="models: " + ", ".join([*MODELS, *ALIASES]))
    parser.add_argument("model", metavar="MODEL", help="a built-in model, with or without zoo:")
    parser.add_argument("-b", "--batch", type=positive, default=1, metavar="N")
    parser.add_argument("--opt", default="sgd", choices=OPTIMIZERS)
    parser.add_argument("--opt-impl", default="foreach", choices=("foreach", "for-loop", "fused"))
    parser.add_argument("--precision", default="fp32", choices=("fp32", "tf32", "fp16", "bf16"))
    parser.add_argument("--amp", choices=("fp16", "bf16"))
    parser.add_argument("--layout", default="nchw", choices=("nchw", "nhwc"))
    parser.add_argument("--loop", default="plain", choices=("plain", "function", "loss_only"))
    parser.add_argument("--seq", type=positive, metavar="N", help="sequence length in tokens")
    parser.add_argument("--micro-batches", type=positive, default=1, metavar="N")
    parser.add_argument("--checkpoint", choices=("block",))
    parser.add_argument("--steps", type=positive, default=10, metavar="N", help="steps to time, after three warm-up steps")
    parser.add_argument("--gpu", help="gpuplan's name for this GPU (found by the name that CUDA reports)")
    parser.add_argument("--tolerance", type=share, default=0.01, metavar="SHARE", help="largest relative error, such as 1%% or 0.01")
    parser.add_argument("--gpuplan", default=str(ROOT / "build/gpuplan"), metavar="PATH")
    parser.add_argument("--record", type=pathlib.Path, metavar="DIR")
    a = parser.parse_args()
    a.model = ALIASES.get(a.model.removeprefix("zoo:"), a.model.removeprefix("zoo:"))
    if a.model not in MODELS:
        parser.error("no model %r here; there are %s" % (a.model, ", ".join(MODELS)))
    if a.seq and MODELS[a.model][3] is None:
        parser.error("%s has no sequences: leave out --seq" % a.model)
    if a.batch % a.micro_batches:
        parser.error("--micro-batches %d does not divide --batch %d" % (a.micro_batches, a.batch))
    if a.micro_batches > 1 and a.loop == "plain":
        parser.error("--micro-batches needs --loop function or loss_only")
    return a


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("%s is less than 1" % text)
    return number


def share(text):
    value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError("%s is not a share such as 1%% or 0.01" % text)
    return value


# --- gpuplan ---------------------------------------------------------------------------------------------------------

def settings(a):
    """Variables of the zoo's model."""
    return {"seq": str(a.seq)} if a.seq else {}


def allocator_settings():
    return os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")


def flags(a, gpu, version):
    words = ["zoo:" + a.model, "--batch", str(a.batch), "--opt", a.opt, "--opt-impl", a.opt_impl, "--layout", a.layout,
             "--loop", a.loop, "--gpu", gpu, "--pytorch", version, "--precision", a.precision, "--format", "json"]
    words += ["--amp", a.amp] if a.amp else []
    words += ["--micro-batches", str(a.micro_batches)] if a.micro_batches > 1 else []
    words += ["--checkpoint", a.checkpoint] if a.checkpoint else []
    words += ["--alloc-conf", allocator_settings()] if allocator_settings() else []
    for name, value in settings(a).items():
        words += ["--set", name + "=" + value]
    return words


def gpuplan(a, words, environment=None):
    """Its JSON, or the first line of what it says instead."""
    try:
        done = subprocess.run([a.gpuplan, *words], capture_output=True, text=True, env=environment)
    except OSError as e:
        raise Missing("%s cannot be run (%s): build it, or name it with --gpuplan" % (a.gpuplan, e.strerror)) from e
    if done.returncode in (0, 1) and done.stdout.startswith("{"):
        return json.loads(done.stdout), ""
    return None, (done.stderr.splitlines() or ["exit code %d" % done.returncode])[0]


def predicted(a, words):
    # The plan is arithmetic: it needs no CUDA runtime, shadow or not.
    environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "GPUPLAN_SHADOW_SESSION")}
    plan, why = gpuplan(a, words, environment)
    if plan is None:
        raise Missing("gpuplan predicts nothing: %s" % why)
    peaks = {}
    for row in plan["phases"]:
        if row["step"] == "steady":
            phase = {"forward": "forward", "loss": "forward", "backward": "backward", "optimizer": "step"}.get(row["phase"])
            peaks[phase] = max(peaks.get(phase, 0), row["peak_allocated_bytes"])
    return {"model": plan["model"]["parameters"], **{p: peaks[p] for p, _ in ROWS},
            "peak_allocated": plan["peak"]["allocated_bytes"], "peak_reserved": plan["peak"]["reserved_bytes"],
            "optimizer_state": plan["bytes"]["optimizer_state"], "device_used": plan["peak"]["device_bytes"]}


def executed(a, words):
    run, why = gpuplan(a, ["validate", *words, "--tolerance", "100"])
    if run is None:
        return {}, why
    found = {row["name"]: row["measured_bytes"] for row in run["rows"]}
    times = run["times"]["step"]["all_ms"] if run.get("times") else None
    return {"peak_allocated": found.get("peak_allocated"), "peak_reserved": found.get("peak_reserved"),
            "step_ms": statistics.median(times) if times else None}, ""


# --- PyTorch ---------------------------------------------------------------------------------------------------------

def statistics_of_memory():
    import torch
    s = torch.cuda.memory_stats()
    keys = {"allocated": "allocated_bytes.all.current", "allocated_peak": "allocated_bytes.all.peak",
            "requested": "requested_bytes.all.current", "requested_peak": "requested_bytes.all.peak",
            "active_peak": "active_bytes.all.peak", "reserved": "reserved_bytes.all.current",
            "reserved_peak": "reserved_bytes.all.peak", "inactive_split": "inactive_split_bytes.all.current",
            "segments": "segment.all.current", "retries": "num_alloc_retries"}
    return {k: int(s.get(v, 0)) for k, v in keys.items()}


def device_used():
    import torch
    free, total = torch.cuda.mem_get_info()
    return int(total - free)


class Meter:
    """Statistics at the ends of phases, each with the peak since the one before."""
    NAMES = {"start": "zeroed", "loss": "forward", "backward": "backward", "optimizer": "step"}

    def __init__(self):
        self.on, self.phases = False, {}

    def __call__(self, phase):
        import torch
        if not self.on or phase not in self.NAMES:  # the end of forward is that of the loss
            return
        torch.cuda.synchronize()
        name, now = self.NAMES[phase], dict(statistics_of_memory(), device_used=device_used())
        for key in [k for k in now if k.endswith("_peak")]:  # of micro-batches the highest
            now[key] = max(now[key], self.phases.get(name, now)[key])
        self.phases[name] = now
        torch.cuda.reset_peak_memory_stats()


def randomize(training, values):
    """Real values where kernels compute: their time depends on them."""
    import torch
    batch = training.batch
    names = list(batch) if isinstance(batch, dict) else [name for name, _ in training.case.shapes]
    for name, t in zip(names, batch.values() if isinstance(batch, dict) else batch):
        if t.is_floating_point():
            t.normal_()
        else:
            t.random_(0, values.get(name, 1))
    torch.cuda.synchronize()


def recipe_of(a):
    return {"mode": "train", "batch": a.batch, "opt": a.opt, "impl": {"for-loop": "forloop"}.get(a.opt_impl, a.opt_impl),
            "dtype": "fp32" if a.precision == "tf32" else a.precision, "amp": a.amp, "loop": a.loop,
            "micro": a.micro_batches, "checkpoint": bool(a.checkpoint), "channels_last": a.layout == "nhwc"}


def timed(step, steps):
    """Milliseconds of each step, by CUDA events."""
    import torch
    times = []
    for _ in range(steps):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        step()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return times


def run_pytorch(a):
    """A run in the form of a recording."""
    import torch
    sys.path.insert(0, str(ROOT / "tests/shadow_recorded"))
    import cases
    import steps
    if SHADOW:
        import real_values
        real_values.count_up_positions()
    source, inputs, values, seq = MODELS[a.model]
    torch.backends.cuda.matmul.allow_tf32 = a.precision == "tf32"
    torch.manual_seed(0)
    case = cases.case_of({"case": a.model, "source": source, "inputs": inputs.replace("{seq}", str(a.seq or seq))})
    meter, made = Meter(), {}
    base = statistics_of_memory()["allocated"]
    training = steps.Training(case, recipe_of(a), meter, made)
    if not SHADOW:
        randomize(training, values)
    step = training.plain_step if a.loop == "plain" else training.step
    out = {"params": sum(p.numel() for p in training.model.parameters()), "base": base,
           "after_model": made["model"]["allocated"], "after_input": statistics_of_memory()["allocated"]}
    step()
    torch.cuda.synchronize()
    out["first_step"] = statistics_of_memory()
    step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    out["before_step"] = statistics_of_memory()
    meter.on = True
    step()
    meter.on = False
    out["steady"] = meter.phases
    out["peak_allocated"] = max(p["allocated_peak"] for p in meter.phases.values())
    out["peak_reserved"] = statistics_of_memory()["reserved_peak"]
    out["device_used"] = device_used()
    out["optimizer_state"] = training.update.state_bytes()
    times = [] if SHADOW else timed(step, a.steps)
    out["step_seconds"] = statistics.median(times) / 1e3 if times else None
    out["step_seconds_all"] = [t / 1e3 for t in times]
    return out


def precision_of(a):
    """In the words of recordings: default is fp32 with PyTorch's default of TF32 in convolutions only."""
    if a.amp:
        return "amp_" + a.amp
    return {"fp32": "default"}.get(a.precision, a.precision)


def identity(a):
    impl = {"foreach": "", "for-loop": "_forloop", "fused": "_fused"}[a.opt_impl]
    return {"model": a.model, "batch": a.batch, "optimizer": ("sgd_momentum" if a.opt == "momentum" else a.opt) + impl,
            "precision": precision_of(a), "layout": a.layout, "loop": a.loop, "micro_batches": a.micro_batches,
            "checkpoint": a.checkpoint or "none", "set": settings(a)}


def without_folder(words):
    """The command without --record, whose folder is the recording's own."""
    kept = [w for w in words if not w.startswith("--record=")]
    if "--record" in kept:
        at = kept.index("--record")
        del kept[at:at + 2]
    return kept


def environment_of(gpu):
    import torch
    properties = torch.cuda.get_device_properties(0)

    def version(name):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return None
    driver = ""
    if not SHADOW:
        try:
            asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
            driver = subprocess.run(asked, capture_output=True, text=True, timeout=20).stdout.strip()
        except (OSError, subprocess.TimeoutExpired):
            pass
    return {"gpu": gpu + (" of gpuplan shadow, no GPU" if SHADOW else ""), "computes": not SHADOW, "sm_count": properties.multi_processor_count,
            "total_memory": properties.total_memory, "capability": [properties.major, properties.minor],
            "torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
            "allocator": torch.cuda.get_allocator_backend(), "python": sys.version.split()[0], "driver": driver,
            "PYTORCH_CUDA_ALLOC_CONF": allocator_settings(),
            "torchvision": version("torchvision"), "transformers": version("transformers"),
            "command": shlex.join(["tests/recorders/compare_pytorch.py", *without_folder(sys.argv[1:])]),
            "date": datetime.date.today().isoformat()}


def record(a, environment, run):
    a.record.mkdir(parents=True, exist_ok=True)
    env, models = a.record / "env.json", a.record / "models.json"
    if env.exists():
        before = json.loads(env.read_text())
        for what in ("gpu", "computes", "torch", "cudnn", "PYTORCH_CUDA_ALLOC_CONF"):
            if before.get(what, environment[what]) != environment[what]:
                raise Missing("%s is of %s %s, this run of %s: record into another folder"
                              % (env, what, before.get(what), environment[what]))
    runs = json.loads(models.read_text()) if models.exists() else []
    who = identity(a)
    kept = [r for r in runs if any(r.get(k) != v for k, v in who.items())]
    env.write_text(json.dumps(environment, indent=1) + "\n")
    text = ",\n".join(json.dumps(r) for r in [*kept, {**who, **run}])
    models.write_text("[\n" + text + "\n]\n")


# --- the table -------------------------------------------------------------------------------------------------------

def figures(run):
    return {**{p: run["steady"][p]["allocated_peak"] for p, _ in ROWS},
            **{k: run[k] for k in ("peak_allocated", "peak_reserved", "optimizer_state", "device_used")},
            "step_ms": None if run["step_seconds"] is None else 1e3 * run["step_seconds"]}


def table(plan, ours, torch_run, tolerance):
    """The lines, and whether every byte that counts is within the tolerance."""
    rows = [*ROWS, ("peak_allocated", "peak allocated"), ("peak_reserved", "peak reserved"),
            ("optimizer_state", "optimizer state"), ("device_used", "device used")]
    lines, holds = ["  %-26s %15s %15s %15s %12s" % ("bytes", "predicted", "executor", "PyTorch", "difference")], True

    def cell(value):
        return "-" if value is None else "{:,}".format(value)
    for key, label in rows:
        p, measured = plan[key], torch_run[key]
        error = (p - measured) / measured if measured else float(p != measured)
        counts = key != "device_used"  # other programs' memory is in it
        holds = holds and (not counts or abs(error) <= tolerance)
        mark = " ✖" if counts and abs(error) > tolerance else ""
        lines.append("  %-26s %15s %15s %15s %+11.2f %%%s"
                     % (label, cell(p), cell(ours.get(key)), cell(measured), 100 * error, mark))
    times = [None, ours.get("step_ms"), torch_run["step_ms"]]
    shown = ["-" if t is None else "%.3f ms" % t for t in times]
    lines.append("  %-26s %15s %15s %15s%s" % ("step", *shown, "  needs a GPU" if SHADOW else ""))
    return lines, holds


def compare(a):
    try:
        import torch
    except ImportError as e:
        raise Missing("torch is not installed for %s" % sys.executable) from e
    # The executor runs first, while PyTorch has allocated nothing.
    if not torch.cuda.is_available():
        raise Missing("torch %s finds no GPU here; without one: gpuplan shadow --gpu h200 -- python3 %s"
                      % (torch.__version__, shlex.join(sys.argv)))
    gpu = torch.cuda.get_device_name(0)
    version = ".".join(torch.__version__.split(".")[:2])
    words = flags(a, a.gpu or gpu, version)
    plan = predicted(a, words)
    ours, why_not = executed(a, words)
    run = run_pytorch(a)
    if run["params"] != plan["model"]:
        raise Missing("PyTorch's %s has %d parameters, the zoo's %d" % (a.model, run["params"], plan["model"]))
    environment = environment_of(gpu)
    print("%s, batch %d, %s, %s, %s, PyTorch %s%s\n" % (a.model, a.batch, precision_of(a), identity(a)["optimizer"], gpu,
                                                      torch.__version__, ", without a GPU" if SHADOW else ""))
    lines, holds = table(plan, ours, figures(run), a.tolerance)
    print("\n".join(lines))
    if why_not:
        print("\n  executor: %s" % why_not)
    if a.record:
        record(a, environment, run)
    return 0 if holds else 1


def main():
    a = arguments()
    try:
        return compare(a)
    except Missing as e:
        print("error: %s" % e, file=sys.stderr)
        return 4


if __name__ == "__main__":
    sys.exit(main())
