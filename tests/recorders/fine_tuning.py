#!/usr/bin/env python3
"""What PyTorch's CUDA code allocates where a model is fine-tuned as people do it, beside the plan of the same flags:

    gpuplan shadow --gpu h200 -q -- python tests/recorders/fine_tuning.py [--gpuplan build/gpuplan] [--record] [WORD...]

Each line of tests/recorded/fine_tuning/runs.txt is a model of models/ and gpuplan's flags; this program reads the flags and
writes what a user of transformers, peft and bitsandbytes writes for them: from_pretrained() of a checkpoint (whose numbers
are a hole in a file), prepare_model_for_kbit_training(), get_peft_model(), the library's optimizer. Every run has a process
of its own; the first and the third step's bytes requested, allocated and reserved, live and at their peaks, are read in
every phase. WORD: runs that have it. --record writes h200.tsv beside runs.txt, --gpuplan compares; exits with 1 where a
figure differs.
"""

import argparse
import contextlib
import gc
import importlib.metadata
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import warnings

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "shadow_recorded"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tools" / "python"))
from forked import forked  # noqa: E402
from gpuplan.checkpoints import write_checkpoint  # noqa: E402
from real_values import count_up_positions  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "recorded" / "fine_tuning"
OPTIMIZERS = FOLDER.parent / "optimizers"  # those that gpuplan has no rules of
FIGURES = {
    "requested_bytes": "requested_bytes.all.current",
    "allocated_bytes": "allocated_bytes.all.current",
    "reserved_bytes": "reserved_bytes.all.current",
    "peak_requested_bytes": "requested_bytes.all.peak",
    "peak_allocated_bytes": "allocated_bytes.all.peak",
    "peak_reserved_bytes": "reserved_bytes.all.peak",
}
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def flags_of(text):
    """gpuplan's flags, as far as runs have them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    for name in ("--lora", "--weights", "--amp", "--kernels"):
        parser.add_argument(name)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--checkpoint")
    parser.add_argument("--opt", default="sgd")
    parser.add_argument("--opt-impl", default="foreach")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=512)
    parser.add_argument("--micro-batches", type=int, default=1)
    parser.add_argument("--clip-grad-norm", action="store_true")
    parser.add_argument("--mode", default="train")
    parser.add_argument("--seq-lengths")
    parser.add_argument("--loop")
    parser.add_argument("--alloc-conf")
    return parser.parse_args(shlex.split(text))


def config_of(name):
    values = json.loads((FOLDER / "models" / (name + ".json")).read_text())
    return values["architectures"][0], transformers.AutoConfig.for_model(values["model_type"]).from_dict(values)


def quantization_of(weights, compute):
    kind, _, how = weights.partition(":")
    if kind == "int8":
        return transformers.BitsAndBytesConfig(load_in_8bit=True)
    return transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type=kind, bnb_4bit_compute_dtype=compute,
                                           bnb_4bit_use_double_quant=how == "double")


def adapted(model, text):
    import peft

    given = dict(pair.split("=") for pair in text.split(","))
    targets = given.get("targets", "all-linear")
    settings = {"r": int(given["r"]), "lora_alpha": float(given.get("alpha", 8)), "lora_dropout": float(given.get("dropout", 0)),
                "target_modules": targets if targets == "all-linear" else targets.split("+"), "task_type": "CAUSAL_LM"}
    if "save" in given:
        settings["modules_to_save"] = given["save"].split("+")
    for flag in ("dora", "rslora"):
        if flag in given:
            settings["use_" + flag] = given[flag].lower() == "true"
    return peft.get_peft_model(model, peft.LoraConfig(**settings))


def model_of(run):
    cls, config = config_of(run.model)
    if run.kernels == "liger":
        import liger_kernel.transformers

        getattr(liger_kernel.transformers, "apply_liger_kernel_to_" + config.model_type)()
    dtype = TYPES[run.precision]
    reentrant = {"use_reentrant": run.checkpoint == "reentrant"}
    if run.weights:
        # The parts that are not stored so are loaded in half precision, which prepare_model_for_kbit_training() turns into
        # fp32; in a model that is computed in half precision people leave them as they are.
        compute = TYPES[run.amp or run.precision]
        with tempfile.TemporaryDirectory() as folder:
            loaded = torch.bfloat16 if dtype == torch.float32 and run.mode == "train" else dtype
            write_checkpoint(folder, getattr(transformers, cls), config, loaded)
            model = getattr(transformers, cls).from_pretrained(folder, quantization_config=quantization_of(run.weights, compute),
                                                               dtype=loaded, device_map={"": 0}, use_safetensors=True)
        model.config.use_cache = False
        if run.mode == "infer":
            return model.eval()
        if dtype == torch.float32:
            import peft

            model = peft.prepare_model_for_kbit_training(model, bool(run.checkpoint), reentrant)
        elif run.checkpoint:
            model.gradient_checkpointing_enable(reentrant)
        model = adapted(model, run.lora) if run.lora else model
        return model.train()
    torch.set_default_dtype(dtype)  # as from_pretrained(dtype=) does
    model = getattr(transformers, cls)(config)
    torch.set_default_dtype(torch.float32)
    if run.checkpoint:
        model.gradient_checkpointing_enable(reentrant)
    model = model.to("cuda")
    model = adapted(model, run.lora) if run.lora else model
    return model.train(run.mode == "train")


class Several:
    """Optimizers that share a model's parameters, stepped in their order."""

    def __init__(self, optimizers):
        self.optimizers = optimizers
        for optimizer in optimizers:
            if hasattr(optimizer, "train"):
                optimizer.train()

    def zero_grad(self):
        for optimizer in self.optimizers:
            optimizer.zero_grad()


def optimizer_of(run, parameters):
    name = run.opt
    if name in ("sgd", "adam", "adamw"):
        cls = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name]
        how = {"foreach": {"foreach": True}, "fused": {"fused": True}, "for-loop": {"foreach": False}}[run.opt_impl]
        return cls([p for _, p in parameters], lr=0.1, **how)
    if run.recorded:
        from gpuplan.named_optimizers import optimizers_named

        return Several(optimizers_named(name, parameters))
    import bitsandbytes.optim

    parameters = [p for _, p in parameters]
    momentum = {"momentum": 0.9} if name.startswith(("sgd", "lars")) else {}
    named = {key.lower().replace("_", ""): key for key in vars(bitsandbytes.optim)}
    return getattr(bitsandbytes.optim, named[name.replace("_", "").replace("bnb", "")])(parameters, lr=0.1, **momentum)


def steps(text, recorded=False):
    run = flags_of(text)
    run.recorded = recorded
    trains = run.mode == "train"
    model = model_of(run)
    gc.collect()
    ids = torch.zeros(run.batch, run.seq, dtype=torch.int64, device="cuda")
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = optimizer_of(run, [(n, p) for n, p in model.named_parameters() if p.requires_grad]) if trains else None
    optimizers = getattr(optimizer, "optimizers", [optimizer])
    scaler = torch.amp.GradScaler("cuda", enabled=run.amp == "fp16")
    rows = {}

    def end(phase):
        stats = torch.cuda.memory_stats()
        rows[phase] = {figure: stats[key] for figure, key in FIGURES.items()}
        torch.cuda.reset_peak_memory_stats()

    def autocast():
        return torch.autocast("cuda", TYPES[run.amp]) if run.amp else contextlib.nullcontext()

    def train(step):
        optimizer.zero_grad()
        end(step + " start")
        for i, part in enumerate(ids.chunk(run.micro_batches)):
            with autocast():
                out = model(input_ids=part, labels=part)
                end(step + " forward")
                loss = out.loss
            if run.micro_batches > 1:
                loss = loss / run.micro_batches
            end(step + " loss")
            scaler.scale(loss).backward()
            end(step + " backward")
            del out, loss
        if run.clip_grad_norm:
            for each in optimizers:
                scaler.unscale_(each)
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            end(step + " clip")
        for each in optimizers:
            scaler.step(each)
        scaler.update()
        end(step + " optimizer")

    def infer(step):
        end(step + " start")
        with torch.no_grad(), autocast():
            out = model(input_ids=ids)
        end(step + " forward")
        del out

    gc.disable()
    for step in ("first", "second", "steady"):
        train(step) if trains else infer(step)
    return {phase: figures for phase, figures in rows.items() if not phase.startswith("second")}


def planned(gpuplan, text):
    model, _, flags = text.partition(" ")
    command = [gpuplan, str(FOLDER / "models" / (model + ".json")), "--gpu", "h200", "--format", "json", *shlex.split(flags)]
    for flag, default in (("--batch", "4"), ("--seq", "512"), ("--loop", "function")):
        command += [] if flag in command or (flag == "--loop" and "infer" in command) else [flag, default]
    if "--opt" not in command and "infer" not in command:
        command += ["--opt", "sgd"]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        return {"error": done.stderr.strip()}
    return {"%s %s" % (p["step"], p["phase"]): p for p in json.loads(done.stdout)["phases"]}


def differences(measured, plan):
    wrong = []
    for phase, figures in measured.items():
        for figure, value in figures.items():
            if phase.endswith("start") and figure.startswith("peak"):
                continue  # of the step before, or of loading the model
            if phase not in plan:
                wrong.append("%s: not planned" % phase)
                break
            if plan[phase][figure] != value:
                wrong.append("%s %s: planned %d, PyTorch %d (%+d, %+.2f %%)" % (
                    phase, figure, plan[phase][figure], value, plan[phase][figure] - value, 100 * (plan[phase][figure] / max(value, 1) - 1)))
    return wrong


def read(folder):
    rows, file = {}, folder / "h200.tsv"
    for line in file.read_text().splitlines()[2:] if file.exists() else []:
        rows.setdefault(line.split("\t")[0], []).append(line)
    return rows


def of_lines(lines):
    fields = [line.split("\t") for line in lines]
    return {" ".join(f[1:3]): dict(zip(FIGURES, map(int, f[3:]))) for f in fields} or {"error": "not recorded"}


def versions():
    """Asked of their metadata: an import would start CUDA in the process that the runs are forked from."""
    numbers = [(name, importlib.metadata.version(name).split("+")[0]) for name in ("transformers", "peft", "bitsandbytes", "torch")]
    return "# %s, gpuplan shadow --gpu h200" % ", ".join("%s %s" % pair for pair in numbers)


def write(folder, rows, order):
    lines = [versions(), "\t".join(["run", "step", "phase", *FIGURES])]
    lines += [line for run in order if run in rows for line in rows[run]]
    (folder / "h200.tsv").write_text("\n".join(lines) + "\n")


def parser_of():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpuplan")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--new", action="store_true", help="only runs that are not recorded")
    parser.add_argument("--recorded", action="store_true", help="compare what was recorded; needs no GPU")
    parser.add_argument("--only", help="the run that is written so")
    parser.add_argument("words", nargs="*")
    return parser


def go_through(a, folder, steps, planned, *arguments):
    """The runs of FOLDER/runs.txt that are asked for, each recorded by steps(run, *arguments); how many failed or differ."""
    runs = [line for line in (folder / "runs.txt").read_text().splitlines() if line and not line.startswith("#")]
    rows, failed = read(folder), 0
    for run in runs:
        if a.only not in (None, run) or any(not re.search(r"(^|\s)%s(\s|$)" % re.escape(word), run) for word in a.words) or (a.new and run in rows):
            continue
        got = of_lines(rows.get(run, [])) if a.recorded else forked(steps, run, *arguments)
        if "error" in got:
            print("%s: %s" % (run, got["error"]))
            failed += 1
            continue
        if a.record:
            rows[run] = ["\t".join([run, *phase.split(" "), *map(str, figures.values())]) for phase, figures in got.items()]
            write(folder, rows, runs)
        if not a.gpuplan:
            continue
        plan = planned(a.gpuplan, run)
        wrong = [plan["error"]] if "error" in plan else differences(got, plan)
        failed += bool(wrong)
        print("%s: %s" % (run, "differs" if wrong else "equal"), *wrong[:int(os.environ.get("SHOWN", "6"))], sep="\n  ", flush=True)
    return failed


def run_all(a, folder, steps, planned, *arguments):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    count_up_positions()
    sys.exit(int(go_through(a, folder, steps, planned, *arguments) > 0))


def main():
    parser = parser_of()
    parser.add_argument("--optimizers", action="store_true", help="the runs of tests/recorded/optimizers instead")
    a = parser.parse_args()
    run_all(a, OPTIMIZERS if a.optimizers else FOLDER, steps, planned, a.optimizers)


if __name__ == "__main__":
    main()
