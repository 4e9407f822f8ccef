"""The model, batch and loss of a recorded case, from what its file says of them.

`source` is Python ("torchvision.models.resnet50()") or names a function of models.py or ../recorders; `inputs` lists
the batch's tensors, b samples each, and the loss: "images [b,3,224,224], labels [b]; F.cross_entropy".
"""
import importlib.metadata
import pathlib
import re
import sys

import torch
import torch.nn.functional as F

import models

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "recorders"))

INTEGERS = ("ids", "input_ids", "labels", "timesteps")
PACKAGES = ("torchvision", "transformers", "timm", "peft", "diffusers")


def shapes(inputs):
    """[(name, sizes without b)] of an `inputs` text."""
    return [(name, [int(n) for n in sizes.split(",")[1:]])
            for name, sizes in re.findall(r"(\w+) \[(b[0-9,]*)\]", inputs.split(";")[0])]


def zeros(name, batch, sizes):
    return torch.zeros(batch, *sizes, dtype=torch.int64 if name in INTEGERS else torch.float32)


class Case:
    """A model that is called with the batch's tensors in order, all but the last, which is the loss's."""

    def __init__(self, recorded, builder):
        self.source, self.shapes, self.builder = recorded["source"], shapes(recorded["inputs"]), builder

    def build(self, recipe):
        model = self.builder()
        if recipe.get("checkpoint"):
            model.gradient_checkpointing_enable({"use_reentrant": False})
        if recipe.get("attn") and hasattr(model, "set_attn_implementation"):
            model.set_attn_implementation(recipe["attn"])
        return model

    def batch(self, b):
        return tuple(zeros(name, b, sizes) for name, sizes in self.shapes)

    def without_labels(self, batch):
        """The batch as inference gets it."""
        return (*batch[:-1], None)

    def forward(self, model, batch):
        return model(*batch[:-1])

    def loss(self, model, y, batch):
        return F.cross_entropy(y["out"] if isinstance(y, dict) else y, batch[-1])

    def versions(self):
        return {p: importlib.metadata.version(p) for p in PACKAGES if p in self.source}


class MeanLoss(Case):
    """The mean of the output; the recorded batch has labels all the same."""

    def batch(self, b):
        return (*super().batch(b), torch.zeros(b, dtype=torch.int64))

    def loss(self, model, y, batch):
        return y.mean()


class HuggingFace(Case):
    """A model that is called by keyword and has its own loss."""
    evaluates = False  # is given labels in inference, too

    def batch(self, b):
        return {name: zeros(name, b, sizes) for name, sizes in self.shapes}

    def without_labels(self, batch):
        return {k: v for k, v in batch.items() if k != "labels"}

    def forward(self, model, batch):
        arguments = {k: v for k, v in batch.items() if k != "labels"}
        return model(**arguments, labels=self.labels(batch) if model.training or self.evaluates else None)

    def labels(self, batch):
        return batch["labels"]

    def loss(self, model, y, batch):
        return y.loss


class LanguageModel(HuggingFace):
    def labels(self, batch):
        return batch["input_ids"]


class EncoderDecoder(HuggingFace):
    def without_labels(self, batch):
        return batch

    def forward(self, model, batch):
        arguments = {k: v for k, v in batch.items() if k != "labels"}
        name = "labels" if model.training or self.evaluates else "decoder_input_ids"
        return model(**arguments, **{name: batch["labels"]})


class Encoder(HuggingFace):
    def forward(self, model, batch):
        return model(**batch)

    def loss(self, model, y, batch):
        return y.last_hidden_state.mean()


class Denoiser(Case):
    """A model of latents, timesteps and text whose output is compared with the noise."""

    def loss(self, model, y, batch):
        return F.mse_loss(y.sample, batch[-1])


class Nasty(Case):
    """A model of ../recorders/nasty_models.py."""

    def __init__(self, recorded, name):
        import nasty_models
        builder, _, self.batch, self.of_output = nasty_models.MODELS[name]
        super().__init__(recorded, builder)

    def loss(self, model, y, batch):
        return self.of_output(y, batch[-1])


def kind_of(inputs):
    if "last_hidden_state" in inputs:
        return Encoder
    if "decoder_input_ids" in inputs:
        return EncoderDecoder
    if "labels = input_ids" in inputs:
        return LanguageModel
    if "the model's own loss" in inputs:
        return HuggingFace
    if "F.mse_loss" in inputs:
        return Denoiser
    return MeanLoss if "out.mean()" in inputs else Case


def evaluated(source):
    """Builds a model from the expression that names it."""
    def build():
        import torchvision
        import transformers
        return eval(source, {"torchvision": torchvision, "transformers": transformers})
    return build


def case_of(recorded):
    """The Case of a recorded file's contents; None where it takes more than its text says."""
    key, source = recorded["case"], recorded["source"]
    if key.startswith("nasty_"):
        return Nasty(recorded, key.removeprefix("nasty_"))
    if key in models.BY_KEY:
        builder = models.BY_KEY[key]
    elif key.startswith(("lora_", "frozen_", "saving_")):
        import saving_memory
        builder = saving_memory.MODELS[key]
    elif re.fullmatch(r"(torchvision|transformers)\.[\w.]+\(.*\)", source):
        builder = evaluated(source)
    else:
        return None
    return kind_of(recorded["inputs"])(recorded, builder)
