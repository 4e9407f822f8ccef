"""Lightning's Trainer, with its strategies: `--like 'lightning(strategy="fsdp")' --gpus 8`."""
from __future__ import annotations

import gc
from typing import Any, Dict

import torch

from gpuplan.adapted import STEPS, Loop, adapted, refuse_given_twice
from gpuplan.errors import ExportError
from gpuplan.library_forms import called, made_with
from gpuplan.shared_model import blocks_of

# What a policy of FSDPStrategy may say instead of classes, which Python's literals do not have.
BLOCKS = "blocks"
POLICIES = ("auto_wrap_policy", "activation_checkpointing_policy")


class LightningLoop:
    """`lightning.Trainer(...).fit()` of the model and its own loss; every rank is a node of one GPU, since one is simulated."""

    def __init__(self, loop: Loop, model: Any, samples: int, folder: str) -> None:
        import lightning  # type: ignore[import-not-found, import-untyped, unused-ignore]
        from gpuplan.library_loops import Tokens
        from gpuplan.stepped import OPTIMIZERS

        self.what = f"--like {loop.like_text}"
        if loop.optimizer and loop.optimizer not in OPTIMIZERS:
            raise ExportError(f"--opt {loop.optimizer}: a LightningModule of one's own takes torch.optim's optimizers; --like trainer takes transformers'")
        gpus = loop.gpus["gpus"] if loop.gpus else 1
        model = adapted(model, loop).train()
        if loop.lora is None and not loop.peft and loop.checkpoint not in ("", "none"):
            model.gradient_checkpointing_enable({"use_reentrant": loop.checkpoint.endswith("reentrant")})
        settings = {**self._given(loop), **loop.settings}
        if isinstance(settings.get("strategy"), str):
            settings["strategy"] = self._strategy(settings["strategy"], model)
        self.trainer = made_with(lightning.Trainer, {
            "max_steps": STEPS, "accelerator": "gpu", "devices": 1, "num_nodes": gpus, "accumulate_grad_batches": loop.micro_batches, "logger": False,
            "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False, "default_root_dir": folder, **settings}, self.what)
        optimizer = OPTIMIZERS[loop.optimizer or "sgd"]

        class Module(lightning.LightningModule):  # type: ignore[misc, unused-ignore]
            def __init__(self) -> None:
                super().__init__()
                self.model = model

            def training_step(self, batch: Dict[str, torch.Tensor], index: int) -> torch.Tensor:
                loss: torch.Tensor = self.model(**batch).loss
                return loss

            def configure_optimizers(self) -> Any:
                return optimizer([p for p in self.parameters() if p.requires_grad], lr=0.001)

        self.module = Module()
        self.loader = torch.utils.data.DataLoader(Tokens(samples * (STEPS + 1), loop.seq), batch_size=samples // gpus // loop.micro_batches)

    def _given(self, loop: Loop) -> Dict[str, Any]:
        """By gpuplan's flags."""
        words = {"bf16": "bf16", "fp16": "16", "fp32": "32"}
        precision = words[loop.amp] + "-mixed" if loop.amp else words[loop.precision] + "-true" if loop.precision else ""
        given = {"precision": precision} if precision else {}
        refuse_given_twice(loop, {"precision": "--amp" if loop.amp else "--precision"} if given else {})
        return given

    def _strategy(self, text: str, model: Any) -> Any:
        """Its registered name, or a class of lightning.pytorch.strategies with its arguments."""
        if "(" not in text:
            return text
        import lightning.pytorch.strategies as strategies  # type: ignore[import-not-found, import-untyped, unused-ignore]

        kinds = {name: kind for name, kind in vars(strategies).items() if isinstance(kind, type) and name.endswith("Strategy")}

        def with_blocks(kind: Any) -> Any:
            def make(**arguments: Any) -> Any:
                for key in POLICIES:
                    if isinstance(arguments.get(key), str) and arguments[key] != BLOCKS:
                        raise ExportError(f"{self.what}: {key}={arguments[key]!r}: expected \"{BLOCKS}\", the classes of the model's blocks")
                classes = {type(block) for block in blocks_of(model, "")}
                return kind(**{key: classes if key in POLICIES and value == BLOCKS else value for key, value in arguments.items()})

            return make

        return called(text, f"{self.what}: strategy", "lightning", {name: with_blocks(kind) for name, kind in kinds.items()}, 'FSDPStrategy(auto_wrap_policy="blocks")')

    def train(self) -> None:
        gc.collect()
        gc.disable()
        self.trainer.fit(self.module, self.loader)
