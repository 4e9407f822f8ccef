"""A LightningModule and its Trainer as people write them, for `gpuplan shadow`: prints the most bytes requested, allocated and reserved in three steps.

    gpuplan shadow --gpu h200 --world 8 --rank 0 -q -- python tests/torch/lightning_script.py MODEL.json BATCH TOKENS STRATEGY '{"precision": "bf16-mixed"}'

BATCH is the rank's. STRATEGY: a name of Lightning's, or fsdp:blocks, FSDPStrategy with each decoder layer wrapped."""
from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
from typing import Any

import lightning
import torch
import transformers
from lightning.pytorch.strategies import FSDPStrategy


class Samples(torch.utils.data.Dataset):
    def __init__(self, count: int, tokens: int) -> None:
        self.count, self.tokens = count, tokens

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        ids = torch.zeros(self.tokens, dtype=torch.int64)
        return {"input_ids": ids, "labels": ids}


class Decoder(lightning.LightningModule):
    def __init__(self, config: str) -> None:
        super().__init__()
        self.net = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(config)).train()

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        return self.net(**batch).loss

    def configure_optimizers(self) -> Any:
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main() -> None:
    config, batch, tokens, strategy, settings = sys.argv[1:]
    world = int(os.environ["WORLD_SIZE"])
    module = Decoder(config)
    layers = {type(layer) for layer in (module.net.transformer.h if hasattr(module.net, "transformer") else module.net.model.layers)}
    how: Any = FSDPStrategy(auto_wrap_policy=layers) if strategy == "fsdp:blocks" else strategy
    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(max_steps=3, accelerator="gpu", devices=1, num_nodes=world, strategy=how, logger=False, enable_checkpointing=False,
                                    enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder, **json.loads(settings))
        loader = torch.utils.data.DataLoader(Samples(int(batch) * world * 4, int(tokens)), batch_size=int(batch))
        gc.collect()
        gc.disable()
        trainer.fit(module, loader)
    stats = torch.cuda.memory_stats()
    print("peaks", *(stats[f"{kind}_bytes.all.peak"] for kind in ("requested", "allocated", "reserved")))


if __name__ == "__main__":
    main()
