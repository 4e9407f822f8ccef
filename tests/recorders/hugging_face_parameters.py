#!/usr/bin/env python3
"""Counts the parameters and buffers of the models that transformers builds of tests/huggingface/*.json.

    python tests/recorders/hugging_face_parameters.py > tests/huggingface/parameters.tsv

The models are built on the meta device. Columns: the file, the class, the elements of all parameters with tied ones
counted once, those that are trained, and the elements of all buffers.
"""

import json
import pathlib

import torch
import transformers

FOLDER = pathlib.Path(__file__).parent.parent / "huggingface"


def build(path):
    values = json.loads(path.read_text())
    config = transformers.AutoConfig.for_model(values["model_type"]).from_dict(values)
    name = values["architectures"][0].replace("T5WithLMHeadModel", "T5ForConditionalGeneration")
    with torch.device("meta"):
        model = getattr(transformers, name)(config)
    model.tie_weights()
    if values["model_type"] == "t5" and values.get("tie_word_embeddings") is False:
        # T5Config ties whatever the file says, and from_pretrained parts the two where a checkpoint has both.
        model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.lm_head.weight))
    return name, model


def main():
    print(f"# transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}")
    print("\t".join(["model", "class", "parameters", "trained", "buffers"]))
    for path in sorted(FOLDER.glob("*.json")):
        name, model = build(path)
        parameters = list(model.parameters())
        counts = [
            sum(p.numel() for p in parameters),
            sum(p.numel() for p in parameters if p.requires_grad),
            sum(b.numel() for b in model.buffers()),
        ]
        print("\t".join([path.stem, name, *map(str, counts)]), flush=True)


if __name__ == "__main__":
    main()
