"""Records what vLLM prints as it starts on a simulated GPU: rows of tests/serving/vllm_starts.csv.

    gpuplan shadow runs this file's --start for each row that is asked for, or for all of them:
    python tests/recorders/vllm_starts.py --python /path/to/python-with-vllm --gpuplan build-ci/gpuplan [NAME ...]

Each start has caches of its own, so that it compiles its model as a first one does. The weights are dummies, and there
is no tokenizer: neither takes memory of the GPU. The columns after `flags` are what the engine says.
"""

import argparse
import csv
import json
import os
import re
import subprocess
import tempfile

HERE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "serving")
TABLE = os.path.join(HERE, "vllm_starts.csv")
NAMES = {
    "--max-len": "max_model_len",
    "--utilization": "gpu_memory_utilization",
    "--max-batched-tokens": "max_num_batched_tokens",
    "--max-seqs": "max_num_seqs",
    "--kv": "kv_cache_dtype",
    "--tp": "tensor_parallel_size",
}


def arguments(flags):
    words, found = flags.split(), {}
    while words:
        word = words.pop(0)
        if word == "--enforce-eager":
            found["enforce_eager"] = True
        elif word == "--compiled-before":
            continue  # of the caches, which the first of two starts fills
        elif word == "--weights" and words[0] == "fp8":
            found["quantization"] = words.pop(0)
        elif word == "--lora":
            loaded, rank = words.pop(0).split("x")
            found.update(enable_lora=True, max_loras=int(loaded), max_lora_rank=int(rank))
        else:
            value = words.pop(0)
            found[NAMES[word]] = value if word == "--kv" else json.loads(value)
    return found


def start(model, flags):
    from vllm import LLM

    LLM(model=model, skip_tokenizer_init=True, load_format="dummy", dtype="auto", **arguments(flags))


def record(row, python, gpuplan):
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, row["model"])
        os.mkdir(model)
        with open(os.path.join(HERE, "models", row["model"] + ".json")) as file:
            text = file.read()
        with open(os.path.join(model, "config.json"), "w") as file:
            file.write(text)
        caches = {name: os.path.join(folder, name) for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "VLLM_CACHE_ROOT")}
        several = "--tp" in row["flags"]
        env = dict(os.environ, **caches, VLLM_ENABLE_V1_MULTIPROCESSING="1" if several else "0", VLLM_NO_USAGE_STATS="1", HF_HUB_OFFLINE="1")
        report = os.path.join(folder, "report.json")
        gpus = ["--gpus", row["flags"].split("--tp ")[1].split()[0]] if several else []
        command = [gpuplan, "shadow", "--gpu", row["gpu"], *gpus, "-o", "json:" + report, "--force", "--", python, os.path.abspath(__file__), "--start", model, row["flags"]]
        for _ in range(2 if "--compiled-before" in row["flags"] else 1):
            run = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        with open(report) as file:
            engine = json.load(file).get("engine")
    parts = {part["part"]: part["bytes"] for part in engine["parts"]} if engine else {}
    tokens = re.search(r"GPU KV cache size: ([\d,]+) tokens", run.stdout)
    said = re.search(r"(To serve at least one request.*?GiB\)\.|No available memory for the cache blocks|OutOfMemoryError)", run.stdout)
    row.update(
        engine=engine["name"] if engine else row["engine"],
        weights_bytes=parts.get("weights", ""),
        profile_bytes=parts.get("profile peak", ""),
        graphs_bytes=parts.get("CUDA graphs, estimated", ""),
        cache_bytes=parts.get("KV cache", ""),
        kv_tokens=tokens[1].replace(",", "") if tokens else 0,
        error="" if tokens else said[1] if said else "?",
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--start", nargs=2, metavar=("MODEL", "FLAGS"))
    parser.add_argument("--python")
    parser.add_argument("--gpuplan", default="build-ci/gpuplan")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if options.start:
        return start(*options.start)
    with open(TABLE, newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        if not options.names or row["name"] in options.names:
            record(row, options.python, os.path.abspath(options.gpuplan))
            print(row["name"], row["kv_tokens"], row["error"], flush=True)
            with open(TABLE, "w", newline="") as file:
                writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)


if __name__ == "__main__":
    main()
