"""transformers' Trainer on several GPUs for several_gpus.py, with FSDP2 as its `fsdp_config` asks for it or, without it, DDP.

Words of a kind: fsdp, block (activation checkpointing: the plugin's under FSDP2), amp (bf16=True), bf, lora8. Phases end where Trainer calls
back: "start" before a step, "backward" before the optimizer's step (its peak is that of forward and backward), "optimizer" after it.
"""
import gc
import tempfile

import torch
import torch.distributed as dist
import transformers
from trainer_loops import Tokens


def train(model, kind, size, world, meter):
    class Reader(transformers.TrainerCallback):
        steps = 0

        def on_step_begin(self, *_, **__):
            meter.on, meter.rows = self.steps in (0, 2), {}
            torch.cuda.reset_peak_memory_stats()
            meter("start")

        def on_pre_optimizer_step(self, *_, **__):
            meter("backward")

        def on_optimizer_step(self, *_, **__):
            meter("optimizer")
            if meter.on:
                read.append(meter.rows)
            self.steps += 1

    read, more = [], {}
    if "fsdp" in kind:
        more = {"fsdp": True, "fsdp_config": {"version": 2, "reshard_after_forward": True, "cpu_ram_efficient_loading": True,
                                              "activation_checkpointing": "block" in kind}}
        if "cp" in kind:
            from accelerate import ParallelismConfig
            from context_engine import answer_with_positions
            ranks = kind.number("cp")
            more["parallelism_config"] = ParallelismConfig(dp_shard_size=world // ranks, cp_size=ranks)
            answer_with_positions(dist.get_rank() % ranks, ranks, 1024)
    elif "block" in kind:
        more = {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": False}}
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder, per_device_train_batch_size=size, max_steps=3, bf16="amp" in kind, report_to=[], save_strategy="no",
            logging_strategy="no", disable_tqdm=True, **more)
        trainer = transformers.Trainer(model=model, args=arguments, train_dataset=Tokens(size * world * 4, 1024), callbacks=[Reader()])
        gc.collect()
        gc.disable()
        trainer.train()
        return trainer.optimizer, read
