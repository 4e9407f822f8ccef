#!/usr/bin/env python3
"""transformers' models for export_check.py, and their memory beside PyTorch's:

    gpuplan shadow --gpu h200 -q -- python tests/torch/export_hf.py --gpuplan build/gpuplan [--infer] [--no-cache [--packed]] [--mask [--unpadded]]
        [--seq N] NAME...
    python tests/torch/export_hf.py --gpuplan build/gpuplan --importer NAME...

NAME: a model of SMALL, made here with sizes that a laptop runs, or a file of tests/huggingface without its .json. The
loss is the model's own. Under `gpuplan shadow` the third step's bytes requested, allocated and reserved, live and at
their peaks, are compared in every phase; --no-cache is use_cache=False, where transformers looks for packed sequences
and finds none (tests/shadow_recorded/real_values.py); --packed lets it take the shadow's zeros for them; --mask gives the models an attention_mask and token types too, as a
tokenizer does, whose zeros are padding; --unpadded plans with padded=0 and answers transformers that nothing is. --record adds
the spec and PyTorch's figures to a folder, as tests/exported/masks has them. --importer compares the plan of the exported model with that of its
config.json, phase by phase. Exits with 1 where a figure differs.
"""
from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, Dict, List, Tuple

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
import torch  # noqa: E402

for folder in ("tools/python", "tests/shadow_recorded"):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / folder))
import gpuplan as exporter  # noqa: E402
from gpuplan.construction import constructed  # noqa: E402
from real_values import count_up_positions  # noqa: E402

CONFIGS = Path(__file__).resolve().parents[1] / "huggingface"
BATCH = 8
LABELS = ("labels", "start_positions", "end_positions")
SEQ = 64
_SIZES = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 3, "num_attention_heads": 8, "vocab_size": 1000}
_GROUPS = dict(_SIZES, num_key_value_heads=2)
# The class that is trained, its config's type, and sizes.
SMALL: Dict[str, Tuple[str, str, Dict[str, Any]]] = {
    "small-gpt2": ("GPT2LMHeadModel", "gpt2", {"n_embd": 256, "n_layer": 3, "n_head": 8, "vocab_size": 1000}),
    "small-llama": ("LlamaForCausalLM", "llama", _GROUPS),
    "small-mistral": ("MistralForCausalLM", "mistral", _GROUPS),
    "small-mixtral": ("MixtralForCausalLM", "mixtral", dict(_GROUPS, num_local_experts=4)),
    "small-qwen2": ("Qwen2ForCausalLM", "qwen2", _GROUPS),
    "small-qwen3": ("Qwen3ForCausalLM", "qwen3", dict(_GROUPS, head_dim=32)),
    "small-gemma": ("GemmaForCausalLM", "gemma", dict(_GROUPS, head_dim=32)),
    "small-phi": ("PhiForCausalLM", "phi", _SIZES),
    "small-opt": ("OPTForCausalLM", "opt", {"hidden_size": 256, "ffn_dim": 512, "num_hidden_layers": 3, "num_attention_heads": 8,
                                            "vocab_size": 1000, "word_embed_proj_dim": 256}),
    "small-bert": ("BertForMaskedLM", "bert", _SIZES),
    "small-bert-classifier": ("BertForSequenceClassification", "bert", _SIZES),
    "small-roberta": ("RobertaForMaskedLM", "roberta", _SIZES),
    "small-roberta-classifier": ("RobertaForSequenceClassification", "roberta", _SIZES),
    "small-distilbert": ("DistilBertForMaskedLM", "distilbert", {"dim": 256, "hidden_dim": 512, "n_layers": 3, "n_heads": 8,
                                                                 "vocab_size": 1000}),
    "small-bert-questions": ("BertForQuestionAnswering", "bert", _SIZES),
    "small-gpt2-classifier": ("GPT2ForSequenceClassification", "gpt2", {"n_embd": 256, "n_layer": 3, "n_head": 8, "vocab_size": 1000,
                                                                        "pad_token_id": 0}),
    "small-llama-classifier": ("LlamaForSequenceClassification", "llama", dict(_GROUPS, pad_token_id=0)),
    "small-megatron": ("MegatronBertForMaskedLM", "megatron-bert", _SIZES),
    "small-t5": ("T5ForConditionalGeneration", "t5", {"d_model": 256, "d_ff": 512, "num_layers": 3, "num_heads": 8, "d_kv": 32,
                                                      "vocab_size": 1000, "decoder_start_token_id": 0}),
    "small-vit": ("ViTForImageClassification", "vit", {k: v for k, v in _SIZES.items() if k != "vocab_size"}),
    "small-whisper": ("WhisperForConditionalGeneration", "whisper", {
        "d_model": 256, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
        "encoder_ffn_dim": 512, "decoder_ffn_dim": 512, "vocab_size": 1000, "max_source_positions": 100, "pad_token_id": 0,
        "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}),
}


def config_of(name: str, **options: Any) -> Tuple[str, Any]:
    """The name of a class of transformers and its config."""
    import transformers

    if name in SMALL:
        cls, kind, sizes = SMALL[name]
        return cls, transformers.AutoConfig.for_model(kind, **sizes, **options)
    values = json.loads((CONFIGS / f"{name}.json").read_text())
    values.pop("torch_dtype", None)
    values.pop("dtype", None)
    values.update(options)
    cls = values["architectures"][0].replace("T5WithLMHeadModel", "T5ForConditionalGeneration")
    return cls, getattr(transformers, cls).config_class.from_dict(values)


def batch_of(cls: str, config: Any, samples: int, device: str, seq: int = SEQ, mask: bool = False) -> Dict[str, torch.Tensor]:
    batch = unmasked_batch(cls, config, samples, device, seq)
    if mask:
        ids = batch["input_ids"]
        batch["attention_mask"] = torch.zeros_like(ids)
        if cls.startswith("Bert"):
            batch["token_type_ids"] = torch.zeros_like(ids)
    return batch


def unmasked_batch(cls: str, config: Any, samples: int, device: str, seq: int) -> Dict[str, torch.Tensor]:
    def tokens(count: int) -> torch.Tensor:
        return torch.zeros(samples, count, dtype=torch.int64, device=device)

    if cls.startswith("ViT"):
        images = torch.zeros(samples, 3, config.image_size, config.image_size, device=device)
        return {"pixel_values": images, "labels": torch.zeros(samples, dtype=torch.int64, device=device)}
    if cls.startswith("Whisper"):
        sound = torch.zeros(samples, config.num_mel_bins, 2 * config.max_source_positions, device=device)
        return {"labels": tokens(seq), "input_features": sound}
    ids = tokens(seq)
    if cls.endswith("QuestionAnswering"):
        places = {name: torch.zeros(samples, dtype=torch.int64, device=device) for name in ("start_positions", "end_positions")}
        return {**places, "input_ids": ids}
    if cls.endswith("SequenceClassification"):
        return {"input_ids": ids, "labels": torch.zeros(samples, dtype=torch.int64, device=device)}
    if cls.startswith("T5"):
        return {"labels": tokens(seq // 2), "input_ids": ids}
    return {"input_ids": ids, "labels": ids if "CausalLM" in cls or "LMHead" in cls else tokens(seq)}


def meta_model(name: str, **options: Any) -> Tuple[str, Any, torch.nn.Module]:
    import transformers

    cls, config = config_of(name, **options)
    return cls, config, constructed(lambda: getattr(transformers, cls)(config))


def case(name: str) -> Tuple[torch.nn.Module, Dict[str, torch.Tensor]]:
    """For export_check.py, which counts a forward's multiply-adds: with the cache that these models keep by default."""
    cls, config, model = meta_model(name)
    return model, batch_of(cls, config, 2, "meta")


def planned(gpuplan: str, spec: str, flags: List[str]) -> Dict[str, Dict[str, int]]:
    command = [gpuplan, spec, "--batch", str(BATCH), "--gpu", "h200", "--format", "json", *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        raise SystemExit(f"{spec}: {done.stderr.strip()}")
    plan = json.loads(done.stdout)
    return {p["phase"]: {k: v for k, v in p.items() if k.endswith("bytes")} for p in plan["phases"] if p["step"] == "steady"}


def exported(gpuplan: str, name: str, options: argparse.Namespace, folder: str) -> Dict[str, Dict[str, int]]:
    cls, config, model = meta_model(name, **({"use_cache": False} if options.no_cache or options.importer else {}))
    batch = batch_of(cls, config, 2, "meta", options.seq, mask=options.mask)
    if options.infer and not cls.startswith(("T5", "Whisper")):
        batch = {name: value for name, value in batch.items() if name not in LABELS}
    spec = str(Path(folder) / "model.yaml")
    exporter.export(model, batch, spec, name=name)
    flags = ["--mode", "infer"] if options.infer else ["--opt", "sgd", "--loop", "function"]
    return planned(gpuplan, spec, flags + (["--set", set_of(options)] if set_of(options) else []))


def set_of(options: argparse.Namespace) -> str:
    """The variable that is not what it is by default."""
    return "padded=0" if options.unpadded else "packed=1" if options.packed else ""


def answer_unpadded() -> None:
    """transformers reads in the shadow's zeros that tokens are padding. It runs what it does to know, and is told otherwise."""
    from transformers import masking_utils

    is_full, skips = masking_utils.fast_all, masking_utils._ignore_bidirectional_mask_sdpa
    masking_utils.fast_all = lambda mask: is_full(mask) is not None
    masking_utils._ignore_bidirectional_mask_sdpa = lambda *arguments: skips(*arguments) is not None


def measured(name: str, options: argparse.Namespace) -> Dict[str, Dict[str, int]]:
    """The third step's, in PyTorch. A function of its own, whose output and loss are gone when it returns."""
    import transformers
    from export_shadow import FIGURES

    cls, config = config_of(name, **({"use_cache": False} if options.no_cache else {}))
    if options.unpadded:
        answer_unpadded()
    if not options.packed:
        count_up_positions()
    gc.collect()  # what other models left
    torch.cuda.empty_cache()
    model = getattr(transformers, cls)(config).train(not options.infer).to("cuda")
    batch = batch_of(cls, config, BATCH, "cuda", options.seq, mask=options.mask)
    if options.infer:
        batch = {name: value for name, value in batch.items() if name not in LABELS}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows: Dict[str, Dict[str, int]] = {}

    def end(phase: str) -> None:
        stats = torch.cuda.memory_stats()
        rows[phase] = {figure: stats[key] for figure, key in FIGURES.items()}
        torch.cuda.reset_peak_memory_stats()

    def train() -> None:
        optimizer.zero_grad()
        end("start")
        out = model(**batch)
        end("forward")
        out.loss.backward()
        end("backward")
        optimizer.step()
        del out
        end("optimizer")

    def infer() -> None:
        end("start")
        with torch.no_grad():
            out = model(**batch)
        end("forward")
        del out

    gc.disable()
    for _ in range(3):
        infer() if options.infer else train()
    return rows


def recorded(name: str, options: argparse.Namespace, spec: Path, figures: Dict[str, Dict[str, int]]) -> None:
    """Adds the spec and the figures to --record."""
    mode, length = "infer" if options.infer else "train", f"-{options.seq}" if options.seq != SEQ else ""
    file = name + "-no-mask" * (not options.mask) + length + "-infer" * options.infer + "-no-cache" * options.no_cache
    rows = options.record / "h200.tsv"
    (options.record / f"{file}.yaml").write_text(spec.read_text())
    lines = rows.read_text().splitlines() if rows.exists() else ["\t".join(["spec", "mode", "set", "phase", *figures["start"]])]
    run = f"{file}\t{mode}\t{set_of(options) or '-'}\t"
    lines = [line for line in lines if not line.startswith(run)]
    lines += [run + "\t".join([phase, *map(str, values.values())]) for phase, values in figures.items()]
    rows.write_text("\n".join(lines) + "\n")


def differences(expected: Dict[str, Dict[str, int]], found: Dict[str, Dict[str, int]], whose: str) -> Tuple[List[str], int]:
    wrong, count = [], 0
    for phase, figures in expected.items():
        for name, value in figures.items():
            if phase == "start" and name.startswith("peak"):
                continue
            count += 1
            if found[phase][name] != value:
                wrong.append(f"{phase} {name}: planned {found[phase][name]:,}, {whose} {value:,}")
    return wrong, count


def imported(gpuplan: str, name: str, options: argparse.Namespace, folder: str) -> Dict[str, Dict[str, int]]:
    cls, config = config_of(name, use_cache=False)
    values = config.to_dict()
    values["architectures"] = [cls]
    file = Path(folder) / "config.json"
    file.write_text(json.dumps(values))
    flags = ["--mode", "infer"] if options.infer else ["--opt", "sgd", "--loop", "function"]
    if "ViT" not in cls:
        flags += ["--set", "target=64"] if "Whisper" in cls else ["--seq", "64"] + (["--set", "target=32"] if "T5" in cls else [])
    return planned(gpuplan, str(file), flags)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpuplan", required=True)
    parser.add_argument("--infer", action="store_true")
    parser.add_argument("--no-cache", action="store_true")
    parser.add_argument("--packed", action="store_true")
    parser.add_argument("--mask", action="store_true")
    parser.add_argument("--unpadded", action="store_true")
    parser.add_argument("--seq", type=int, default=SEQ, help="tokens of a sample")
    parser.add_argument("--record", type=Path)
    parser.add_argument("--importer", action="store_true")
    parser.add_argument("models", nargs="+")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    failed = 0
    for name in options.models:
        with tempfile.TemporaryDirectory() as folder:
            plan = exported(options.gpuplan, name, options, folder)
            expected = imported(options.gpuplan, name, options, folder) if options.importer else measured(name, options)
            if options.record:
                recorded(name, options, Path(folder) / "model.yaml", expected)
        wrong, count = differences(expected, plan, "the config's" if options.importer else "PyTorch")
        failed += bool(wrong)
        print(f"hf:{name}{' infer' if options.infer else ''}{' no cache' if options.no_cache else ''}{' packed' if options.packed else ''}"
              f"{' attention_mask' if options.mask else ''}{' unpadded' if options.unpadded else ''}{f' {options.seq} tokens' if options.seq != SEQ else ''}: "
              f"{count - len(wrong)} of {count} figures equal", *wrong, sep="\n  ", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
