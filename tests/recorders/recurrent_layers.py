#!/usr/bin/env python3
"""The peaks of tests/unit/graph/test_recurrent.cpp: recurrent_layers.py CALL VOCABULARY TOKENS BATCH RESULTS PRECISION AMP

Run under `gpuplan shadow --gpu GPU`. CALL is the layer's, "lm" for the zoo's lstm_lm; AMP is -, fp16 or bf16. Prints what forward, loss,
backward and optimizer allocate at most in the third step of AdamW.
"""
import pathlib
import sys

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "shadow_recorded"))
import steps  # noqa: E402


class Model(nn.Module):
    def __init__(self, call, vocabulary, results):
        super().__init__()
        language = call == "lm"
        layer = "LSTM(256, 512, num_layers=2, dropout=0.2, batch_first=True)" if language else call
        self.embedding = nn.Embedding(vocabulary, int(layer.partition("(")[2].partition(",")[0]))
        self.drop = nn.Dropout(0.2) if language else nn.Identity()
        self.recurrent = eval("nn." + layer)
        self.decoder = nn.Linear(results, vocabulary)

    def forward(self, ids):
        return self.decoder(self.drop(self.recurrent(self.drop(self.embedding(ids)))[0])).flatten(0, 1)


class Case:
    def __init__(self, call, vocabulary, tokens, results):
        self.call, self.vocabulary, self.tokens, self.results = call, vocabulary, tokens, results

    def build(self, recipe):
        model = Model(self.call, self.vocabulary, self.results)
        torch.manual_seed(0)
        return model

    def batch(self, b):
        return torch.zeros(b, self.tokens, dtype=torch.int64), torch.zeros(b * self.tokens, dtype=torch.int64)

    def forward(self, model, batch):
        return model(batch[0])

    def loss(self, model, y, batch):
        return nn.functional.cross_entropy(y, batch[1])


def main(call, vocabulary, tokens, batch, results, precision, amp):
    recipe = {"batch": int(batch), "opt": "adamw", "dtype": precision, "loop": "function"}
    if amp != "-":
        recipe["amp"] = amp
    _, out = steps.train(Case(call, int(vocabulary), int(tokens), int(results)), recipe, steps.Meter(False))
    step = out["steady_step"]
    print(call, precision, amp, *(step[phase]["peak"]["allocated"] for phase in ("forward", "loss", "backward", "optimizer")))


main(*sys.argv[1:])
