#!/usr/bin/env python3
"""What PyTorch's CUDA code allocates for a step of models that transformers builds of a config.json, and their plans:

    gpuplan shadow --gpu h200 -q -- python tests/recorders/hugging_face_steps.py [--gpuplan build/gpuplan] [--record] NAME...

NAME: a file of tests/huggingface/steps without its .json; all of them by default. Every model runs in a process of its
own, three times; the third step's bytes requested, allocated and reserved, live and at their peaks, are read in every
phase, in training (SGD, the model's own loss, or the mean of what a model without one returns) and in inference, of 4
samples of 64 tokens. Decoders are run without a cache and find no packed sequences, as on a GPU (real_values.py in
shadow_recorded/) and as the imported spec says. --record writes them to tests/huggingface/steps/h200.tsv; --gpuplan
compares them with the plan of the file. Exits with 1 where a figure differs.
"""

import argparse
import gc
import json
import os
import pathlib
import subprocess
import sys
import warnings

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "shadow_recorded"))
from forked import forked  # noqa: E402
from real_values import count_up_positions  # noqa: E402

FOLDER = pathlib.Path(__file__).parent.parent / "huggingface" / "steps"
BATCH, TOKENS, TARGETS = 4, 64, 32
FIGURES = {
    "requested_bytes": "requested_bytes.all.current",
    "allocated_bytes": "allocated_bytes.all.current",
    "reserved_bytes": "reserved_bytes.all.current",
    "peak_requested_bytes": "requested_bytes.all.peak",
    "peak_allocated_bytes": "allocated_bytes.all.peak",
    "peak_reserved_bytes": "reserved_bytes.all.peak",
}


def config_of(name):
    values = json.loads((FOLDER / (name + ".json")).read_text())
    config = transformers.AutoConfig.for_model(values["model_type"]).from_dict(values)
    if hasattr(config, "use_cache") and values["model_type"] != "t5":  # whose spec has it as a variable
        config.use_cache = False
    if "_attn_implementation" in values:
        config._attn_implementation = values["_attn_implementation"]
    return values["architectures"][0], config


def batch_of(cls, config, trains):
    """Inputs first, then labels, as they are allocated."""

    def zeros(*sizes, dtype=torch.int64):
        return torch.zeros(BATCH, *sizes, dtype=dtype, device="cuda")

    if cls.startswith("ViT"):
        batch = {"pixel_values": zeros(3, config.image_size, config.image_size, dtype=torch.float32)}
    elif cls.startswith("Whisper"):
        labels = zeros(TARGETS)
        batch = {"labels": labels} if cls.endswith("Generation") else {"decoder_input_ids": labels}
        batch["input_features"] = zeros(config.num_mel_bins, 2 * config.max_source_positions, dtype=torch.float32)
    elif cls in ("CLIPModel", "SiglipModel"):
        size = config.vision_config.image_size
        return {"input_ids": zeros(TOKENS), "pixel_values": zeros(3, size, size, dtype=torch.float32)}
    elif cls in ("T5Model", "T5ForConditionalGeneration", "BartForConditionalGeneration"):
        labels = zeros(TARGETS)
        batch = {"labels": labels} if cls.endswith("Generation") else {"decoder_input_ids": labels}
        return {**batch, "input_ids": zeros(TOKENS)}
    else:
        batch = {"input_ids": zeros(TOKENS)}
    if not trains:
        return batch
    problem = getattr(config, "problem_type", None)
    if cls.endswith(("SequenceClassification", "ImageClassification")):
        if problem == "multi_label_classification":
            batch["labels"] = zeros(config.num_labels, dtype=torch.float32)
        elif config.num_labels == 1:
            batch["labels"] = zeros(dtype=torch.float32)
        else:
            batch["labels"] = zeros()
    elif cls.endswith("QuestionAnswering"):
        batch["start_positions"], batch["end_positions"] = zeros(), zeros()
    elif cls.endswith(("CausalLM", "LMHeadModel")):
        batch["labels"] = batch["input_ids"]
    elif cls.endswith(("MaskedLM", "TokenClassification")):
        batch["labels"] = zeros(TOKENS)
    return batch


def steps(name, mode):
    """The third step's figures by phase. Its output and loss are gone when a step's function returns."""
    cls, config = config_of(name)
    trains = mode == "train"
    model = getattr(transformers, cls)(config).train(trains).to("cuda")
    batch = batch_of(cls, config, trains)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1) if trains else None
    rows = {}

    def end(phase):
        stats = torch.cuda.memory_stats()
        rows[phase] = {figure: stats[key] for figure, key in FIGURES.items()}
        torch.cuda.reset_peak_memory_stats()

    def train():
        optimizer.zero_grad()
        end("start")
        out = model(**batch)
        end("forward")
        loss = out.loss if "loss" in out else out[0].mean()
        end("loss")
        loss.backward()
        end("backward")
        del out, loss
        optimizer.step()
        end("optimizer")

    def infer():
        end("start")
        with torch.no_grad():
            out = model(**batch)
            out = [value for name, value in out.items() if name != "loss"]  # where labels are inputs of the model, too
        end("forward")
        del out

    gc.disable()
    for _ in range(3):
        train() if trains else infer()
    return rows


def planned(gpuplan, name, mode):
    command = [gpuplan, str(FOLDER / (name + ".json")), "--batch", str(BATCH), "--gpu", "h200", "--format", "json"]
    command += ["--mode", "infer"] if mode == "infer" else ["--opt", "sgd", "--loop", "function"]
    values = json.loads((FOLDER / (name + ".json")).read_text())
    if "_attn_implementation" in values:
        command += ["--attention", values["_attn_implementation"]]
    if values["model_type"] not in ("vit", "whisper"):
        command += ["--seq", str(TOKENS)]
    if values["architectures"][0] in ("T5Model", "T5ForConditionalGeneration", "BartForConditionalGeneration", "WhisperModel"):
        command += ["--set", "target=%d" % TARGETS]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        return {"error": done.stderr.strip()}
    plan = json.loads(done.stdout)
    return {p["phase"]: p for p in plan["phases"] if p["step"] == "steady"}


def differences(measured, plan):
    wrong = []
    for phase, figures in measured.items():
        for figure, value in figures.items():
            if phase == "start" and figure.startswith("peak"):
                continue  # of the step before
            if plan[phase][figure] != value:
                wrong.append("%s %s: planned %d, PyTorch %d (%+d)"
                             % (phase, figure, plan[phase][figure], value, plan[phase][figure] - value))
    return wrong


def read():
    """What is recorded already: lines by model and mode."""
    rows, file = {}, FOLDER / "h200.tsv"
    for line in file.read_text().splitlines()[2:] if file.exists() else []:
        rows.setdefault(tuple(line.split("\t")[:2]), []).append(line)
    return rows


def write(rows):
    lines = ["# transformers %s, torch %s, gpuplan shadow --gpu h200"
             % (transformers.__version__, torch.__version__.split("+")[0]), "\t".join(["model", "mode", "phase", *FIGURES])]
    lines += [line for _, phases in sorted(rows.items()) for line in phases]
    (FOLDER / "h200.tsv").write_text("\n".join(lines) + "\n")


def lines_of(name, mode, phases):
    return ["\t".join([name, mode, phase, *map(str, figures.values())]) for phase, figures in phases.items()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpuplan")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("models", nargs="*")
    a = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    count_up_positions()
    rows, failed = read(), 0
    for name in a.models or sorted(p.stem for p in FOLDER.glob("*.json")):
        for mode in ("train", "infer"):
            got = forked(steps, name, mode)
            if "error" in got:
                sys.exit("%s %s: %s" % (name, mode, got["error"]))
            if a.record:
                rows[name, mode] = lines_of(name, mode, got)
                write(rows)
            if not a.gpuplan:
                continue
            plan = planned(a.gpuplan, name, mode)
            wrong = [plan["error"]] if "error" in plan else differences(got, plan)
            failed += bool(wrong)
            print("%s %s: %s" % (name, mode, "differs" if wrong else "equal"), *wrong, sep="\n  ", flush=True)
    sys.exit(int(failed > 0))


if __name__ == "__main__":
    main()
