"""A training loop of one's own, as PyTorch's tutorials have it, and the libraries that people put into one."""
from __future__ import annotations

import contextlib
import gc
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Union

import torch

from gpuplan.adapted import STEPS, TYPES, Loop, adapted
from gpuplan.errors import ExportError
from gpuplan.library_forms import called, made_with
from gpuplan.shared_model import begin, blocks_of, in_units, optimizer_of, replicated, sharing_of, without_memory, without_reduction


@dataclass
class Own:
    """What --like 'pytorch(...)' gives."""

    float8: str = ""  # a recipe of torchao.float8: tensorwise, rowwise, rowwise_with_gw_hp
    float8_gather: bool = False  # of --fsdp: weights are cast before they are gathered (enable_fsdp_float8_all_gather)
    transformer_engine: str = ""  # a recipe of TransformerEngine's: DelayedScaling, Float8CurrentScaling, MXFP8BlockScaling
    cut_cross_entropy: bool = False
    save_on_cpu: bool = False  # what autograd saves waits in pinned memory of the host
    compile: Union[bool, str] = False  # or "blocks": each by itself, as torchtitan does it
    activation_memory_budget: float = 1.0  # of the compiled graph


class OnlyLoss(NamedTuple):
    loss: torch.Tensor


def whole_batch(loop: Loop, samples: int) -> torch.Tensor:
    return torch.zeros(samples, loop.seq, dtype=torch.int64, device="cuda")


class OwnLoop:
    """A step is a function: its output and loss are gone before the optimizer steps."""

    def __init__(self, loop: Loop, model: Any, samples: int, folder: str) -> None:
        import torch._functorch.config as graphs
        from gpuplan.stepped import OPTIMIZERS

        own: Own = made_with(Own, loop.settings, f"--like {loop.like_text}")
        refuse_contradictions(loop, own)
        self.sharing = sharing = sharing_of(loop.gpus)
        begin(sharing)
        in_fsdp = sharing is not None and sharing.way == "fsdp"
        model = model if loop.weights else without_memory(model) if in_fsdp else model.to("cuda")
        model = adapted(model, loop).train()
        if loop.lora is None and not loop.peft and loop.checkpoint not in ("", "none"):
            model.gradient_checkpointing_enable({"use_reentrant": loop.checkpoint.endswith("reentrant")})
        if own.float8:
            model = with_float8(model, own)
        self.products = with_transformer_engine(model, own.transformer_engine) if own.transformer_engine else contextlib.nullcontext
        graphs.activation_memory_budget = own.activation_memory_budget
        wrap = sharing.wrap if sharing is not None else ""
        if own.compile == "blocks":
            for block in blocks_of(model, wrap):
                block.compile()
        if sharing is not None:
            model = in_units(model, blocks_of(model, wrap), sharing, bool(loop.weights)) if in_fsdp else replicated(model, sharing)
        self.bare, self.loop, self.own = model, loop, own  # what is compiled has not its methods
        trained = [p for p in model.parameters() if p.requires_grad]
        if not trained:
            raise ExportError("nothing is trained: --lora or --peft adds what is, and --mode infer plans the model as it is")
        self.optimizer = optimizer_of(OPTIMIZERS[loop.optimizer or "sgd"], trained, sharing)
        self.scaler = torch.amp.GradScaler("cuda", enabled=loop.amp == "fp16")
        self.tokens = whole_batch(loop, samples // (1 if sharing is None else sharing.gpus))
        self.model = torch.compile(model) if whole_graph(own) else model

    def train(self) -> None:
        gc.collect()
        gc.disable()
        for _ in range(STEPS):
            self.step()

    def outputs_of(self, part: torch.Tensor) -> Any:
        """With a loss; the logits stay beside it until the step lets them go."""
        if not self.own.cut_cross_entropy:
            return self.model(input_ids=part, labels=part)
        from cut_cross_entropy import linear_cross_entropy  # type: ignore[import-not-found, import-untyped, unused-ignore]

        model = self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model  # of peft's
        hidden = model.base_model(input_ids=part).last_hidden_state
        return OnlyLoss(linear_cross_entropy(hidden, model.get_output_embeddings().weight.to(hidden.dtype), part, shift=True))

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.tokens.zero_()  # a simulated GPU takes kernels of Triton to write whatever they are given
        parts = self.tokens.chunk(self.loop.micro_batches)
        for number, part in enumerate(parts, 1):
            on_host = torch.autograd.graph.save_on_cpu(pin_memory=True) if self.own.save_on_cpu else contextlib.nullcontext()
            with without_reduction(self.bare, self.sharing, number == len(parts)):
                with torch.autocast("cuda", TYPES[self.loop.amp]) if self.loop.amp else contextlib.nullcontext(), on_host, self.products():
                    out = self.outputs_of(part)
                    loss = out.loss
                if self.loop.micro_batches > 1:
                    loss = loss / self.loop.micro_batches
                self.scaler.scale(loss).backward()
            del out, loss
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if self.own.float8_gather:
            from torchao.float8 import precompute_float8_dynamic_scale_for_fsdp  # type: ignore[import-not-found, import-untyped, unused-ignore]

            precompute_float8_dynamic_scale_for_fsdp(self.bare)


def whole_graph(own: Own) -> bool:
    return own.compile is True or (own.activation_memory_budget != 1 and not own.compile)


def refuse_contradictions(loop: Loop, own: Own) -> None:
    from gpuplan.stepped import OPTIMIZERS

    what = f"--like {loop.like_text}"
    in_fsdp = loop.gpus is not None and loop.gpus.get("way") == "fsdp"
    for name in ("float8_gather", "cut_cross_entropy", "save_on_cpu"):
        if not isinstance(getattr(own, name), bool):
            raise ExportError(f"{what}: {name} is True or False, and not {getattr(own, name)!r}")
    if not isinstance(own.compile, bool) and own.compile != "blocks":
        raise ExportError(f"{what}: compile is True, the whole model, or \"blocks\", each by itself, and not {own.compile!r}")
    if (own.compile or whole_graph(own)) and own.cut_cross_entropy:
        raise ExportError(f"{what}: the layers that cut_cross_entropy calls are not those that are compiled; leave out one")
    if own.float8 and own.transformer_engine:
        raise ExportError(f"{what}: float8 is torchao's, and transformer_engine has layers of its own; leave out one")
    if own.float8_gather and not (own.float8 == "tensorwise" and in_fsdp):
        raise ExportError(f"{what}: float8_gather is of float8=\"tensorwise\" with --fsdp or --zero fsdp: torchao gathers no other weights in float8")
    if own.cut_cross_entropy and loop.gpus is not None:
        raise ExportError(f"{what}: what cut_cross_entropy calls goes past the module that DDP or FSDP2 has wrapped")
    if own.transformer_engine and in_fsdp:
        raise ExportError(f"{what}: transformer_engine is run with DDP, not with FSDP2")
    if loop.optimizer and loop.optimizer not in OPTIMIZERS:
        raise ExportError(f"--opt {loop.optimizer}: a loop of one's own takes torch.optim's optimizers; --like trainer takes transformers'")


def with_float8(model: Any, own: Own) -> Any:
    """Its linear layers whose sizes are multiples of 16, but the head, as torchao's documentation has it."""
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training  # type: ignore[import-not-found, import-untyped, unused-ignore]

    try:
        config = Float8LinearConfig.from_recipe_name(own.float8)
    except (AssertionError, ValueError) as refusal:
        raise ExportError(f"float8={own.float8!r}: {refusal}")
    if own.float8_gather:
        config = replace(config, enable_fsdp_float8_all_gather=True)
    head = model.get_output_embeddings()
    return convert_to_float8_training(model, config=config, module_filter_fn=lambda m, _: m is not head and m.in_features % 16 == 0 and m.out_features % 16 == 0)


@torch.no_grad()
def with_transformer_engine(model: Any, recipe: str) -> Any:
    """Its linear layers and norms as TransformerEngine's, the way accelerate converts them; what their products are computed within."""
    from transformer_engine.pytorch import fp8_autocast  # type: ignore[import-not-found, import-untyped, unused-ignore]
    from accelerate import Accelerator
    from accelerate.utils.transformer_engine import convert_model
    from transformer_engine.common import recipe as recipes  # type: ignore[import-not-found, import-untyped, unused-ignore]

    kinds = {name: kind for name, kind in vars(recipes).items() if isinstance(kind, type) and issubclass(kind, recipes.Recipe)}
    made = called(recipe, "transformer_engine", "transformer_engine", kinds, "DelayedScaling")
    Accelerator()  # whose state it asks for
    convert_model(model)
    return lambda: fp8_autocast(fp8_recipe=made)


@dataclass
class Served:
    """What --like 'infer(...)' gives."""

    merge: bool = False  # adapters into the weights that they are beside, as before serving or saving them


class OwnInference:
    """Forwards in eval mode, whose logits are let go."""

    def __init__(self, loop: Loop, model: Any, samples: int, folder: str) -> None:
        served: Served = made_with(Served, loop.settings, f"--like {loop.like_text}")
        model = model if loop.weights else model.to("cuda")
        self.model = adapted(model, loop).eval()
        if served.merge:
            if loop.lora is None and not loop.peft:
                raise ExportError(f"--like {loop.like_text}: there is nothing to merge: --lora or --peft adds adapters")
            self.model = self.model.merge_and_unload()
        self.loop, self.tokens = loop, whole_batch(loop, samples)

    @torch.no_grad()
    def train(self) -> None:
        gc.collect()
        gc.disable()
        for _ in range(STEPS):
            with torch.autocast("cuda", TYPES[self.loop.amp]) if self.loop.amp else contextlib.nullcontext():
                self.model(input_ids=self.tokens)
