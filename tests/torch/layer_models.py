"""What runs in PyTorch for each layer of gpuplan: a module of torch.nn of the same name and arguments, unless it stands
here. Each function is given the layer's inputs, then the arguments of the call as it is written in the example."""
from __future__ import annotations

import functools
import importlib
from types import SimpleNamespace
from typing import Any, Callable, Dict, List, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

IN_FORWARD = "lines of a transformers model's forward, not a function of their own; recorded with whole models"
NAME = "binds a name in forward(), which is no operation"
GENERATION = "computes something in a generation only"

# What has no counterpart, and why.
WITHOUT: Dict[str, str] = {
    **dict.fromkeys(["LigerCausalLMLoss", "LigerHead", "LigerRMSNorm", "LigerRotary", "LigerSiLUMul"], "compared within models, tests/recorded/fine_tuning"),
    "AttentionMask": IN_FORWARD, "BertIds": IN_FORWARD, "BidirectionalMask": IN_FORWARD, "CausalMask": IN_FORWARD,
    "OPTPositionIds": IN_FORWARD, "PaddingCheck": IN_FORWARD, "RobertaIds": IN_FORWARD, "WhisperPositionIds": IN_FORWARD,
    "Attribute": NAME, "Rebind": NAME, "HeldByGraph": NAME, "Return": NAME, "ReturnedState": NAME,
    "KVCache": GENERATION, "LastToken": GENERATION,
    "AutocastType": "converts under autocast only, and the examples are of fp32",
    "CausalBuffers": "registers buffers, which is no operation",
    "Aten": "any operator, as it was recorded: recorded_operators.sh compares models of them",
    "FusedAttention": "a hand-written kernel (arXiv:2205.14135), which PyTorch does not have",
    "TruncNormalInit": "initializes weights when a model is built, not in a step",
    "WhisperSinusoids": "initializes weights when a model is built, not in a step",
    "ReplacedParameter": "is there while a model is built, not in a step",
    "ClampOverflow": "computes something in fp16 only, and the examples are of fp32",
}


def transformers_class(module: str, name: str) -> Callable[..., Any]:
    def make(*arguments: Any, **keywords: Any) -> Any:
        return getattr(importlib.import_module(f"transformers.{module}"), name)(*arguments, **keywords)
    return make


def rotary(head_dim: int) -> nn.Module:
    from transformers.models.llama.modeling_llama import LlamaConfig, LlamaRotaryEmbedding
    return LlamaRotaryEmbedding(LlamaConfig(hidden_size=head_dim, num_attention_heads=1, head_dim=head_dim))


def experts(hidden: int, inner: int, num_experts: int, top_k: int, implementation: str) -> nn.Module:
    from transformers import MixtralConfig
    from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock
    config = MixtralConfig(hidden_size=hidden, intermediate_size=inner, num_local_experts=num_experts,
                           num_experts_per_tok=top_k)
    config._experts_implementation = implementation
    block = MixtralSparseMoeBlock(config)
    for weight in block.parameters():  # from_pretrained fills them
        nn.init.normal_(weight, std=0.02)
    return block


def grouped_product(x: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
    """As many rows in each group; FlopCounterMode, on the CPU, knows the batched product alone."""
    if x.is_cuda:
        return F.grouped_mm(x, weights, offs=ends.detach().to(torch.int32))
    return torch.bmm(x.view(len(ends), -1, x.shape[1]), weights).flatten(0, 1)


def experts_on(device: str) -> Callable[..., nn.Module]:
    """FlopCounterMode does not know grouped products; one by one the experts run the same ones."""
    return functools.partial(experts, implementation="grouped_mm" if device == "cuda" else "eager")


def gpt_oss_experts(hidden: int, inner: int, num_experts: int, implementation: str) -> nn.Module:
    from transformers import GptOssConfig
    from transformers.models.gpt_oss.modeling_gpt_oss import GptOssExperts
    config = GptOssConfig(hidden_size=hidden, intermediate_size=inner, num_local_experts=num_experts)
    config._experts_implementation = implementation
    module = GptOssExperts(config)
    for weight in module.parameters():
        nn.init.normal_(weight, std=0.02)
    return module


class ChosenExperts(nn.Module):
    """Experts without their router, of which the first one is all tokens' choice, written in as many bytes as the example's."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.experts = module

    def forward(self, x: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        return self.experts(x, torch.zeros_like(chosen, dtype=torch.int32 if x.is_cuda else torch.int64), weights)


def chosen_experts_on(device: str) -> Dict[str, Callable[..., nn.Module]]:
    implementation = "grouped_mm" if device == "cuda" else "eager"
    return {"Experts": lambda hidden, inner, num_experts: ChosenExperts(experts(hidden, inner, num_experts, 1, implementation).experts),
            "GptOssExperts": lambda hidden, inner, num_experts: ChosenExperts(gpt_oss_experts(hidden, inner, num_experts, implementation))}


def swin(*arguments: Any, **keywords: Any) -> nn.Module:
    from torchvision.models.swin_transformer import ShiftedWindowAttention
    return ShiftedWindowAttention(*arguments, **keywords)


def layer_norm_2d(channels: int) -> nn.Module:
    from torchvision.models.convnext import LayerNorm2d
    return LayerNorm2d(channels)


def stochastic_depth(p: float, mode: str) -> nn.Module:
    from torchvision.ops import StochasticDepth
    return StochasticDepth(p, mode)


def timesteps(channels: int) -> nn.Module:
    from diffusers.models.embeddings import Timesteps
    return Timesteps(channels, flip_sin_to_cos=True, downscale_freq_shift=0)


class ClassToken(nn.Module):
    """As torchvision's VisionTransformer.forward puts it before the patches."""

    def __init__(self, hidden: int):
        super().__init__()
        self.class_token = nn.Parameter(torch.zeros(1, 1, hidden))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.class_token.expand(x.shape[0], -1, -1), x], dim=1)


class Weight(nn.Module):
    def __init__(self, *shape: int):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(shape))

    def forward(self) -> Tensor:
        return self.weight


class Lora(nn.Module):
    """peft/tuners/lora/layer.py, Linear.forward, beside a layer whose result is given: of 784 and 512 features."""

    def __init__(self, rank: int):
        super().__init__()
        self.lora_A, self.lora_B = nn.Linear(784, rank, bias=False), nn.Linear(rank, 512, bias=False)

    def forward(self, x: Tensor, result: Tensor) -> Tensor:
        return result + self.lora_B(self.lora_A(x)) * 1.0


class Dora(Lora):
    """peft/tuners/lora/dora.py, DoraLinearLayer.forward, of a result without a bias."""

    def __init__(self, rank: int):
        super().__init__(rank)
        self.magnitude = nn.Parameter(torch.ones(512))

    def forward(self, x: Tensor, result: Tensor, weight: Tensor) -> Tensor:
        with torch.no_grad():  # peft detaches: the nodes of these go with the call
            eye = torch.eye(784, dtype=x.dtype, device=x.device)
            norm = torch.linalg.norm(weight + self.lora_B(self.lora_A(eye)).T, dim=1)
        scale = (self.magnitude / norm).view(1, -1)
        return result + ((scale - 1) * result + scale * self.lora_B(self.lora_A(x)) * 1.0)


class PositionBias(nn.Module):
    """transformers/models/t5/modeling_t5.py, T5Attention.compute_bias, of buckets that are there."""

    def __init__(self, buckets: int, heads: int, tokens: int):
        super().__init__()
        self.relative_attention_bias = nn.Embedding(buckets, heads)
        self.tokens = tokens

    def forward(self) -> Tensor:
        weight = self.relative_attention_bias.weight
        buckets = torch.zeros(self.tokens, self.tokens, dtype=torch.int64, device=weight.device)
        return self.relative_attention_bias(buckets).permute([2, 0, 1]).unsqueeze(0)


class PositionsOfOpt(nn.Module):
    def __init__(self, positions: int, size: int):
        super().__init__()
        self.table = transformers_class("models.opt.modeling_opt", "OPTLearnedPositionalEmbedding")(positions, size)

    def forward(self, positions: Tensor) -> Tensor:
        return self.table(None, 0, position_ids=positions)


class PositionsOfWhisper(nn.Module):
    def __init__(self, positions: int, size: int):
        super().__init__()
        self.table = transformers_class("models.whisper.modeling_whisper", "WhisperPositionalEmbedding")(positions, size)

    def forward(self, positions: Tensor) -> Tensor:
        return self.table(None, position_ids=positions)


class Rotary(nn.Module):
    def __init__(self, head_dim: int):
        super().__init__()
        self.rotary = rotary(head_dim)

    def forward(self, positions: Tensor) -> Tensor:
        return self.rotary(torch.zeros((), device=positions.device), positions)


class SelfAttention(nn.Module):
    def __init__(self, *arguments: Any, **keywords: Any):
        super().__init__()
        self.attention = nn.MultiheadAttention(*arguments, **keywords)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x)[0]


class Recurrent(nn.Module):
    """With first states that want a gradient: cuDNN's backward computes it whether they do or not."""

    def __init__(self, kind: str, *arguments: Any, **keywords: Any):
        super().__init__()
        self.cells = getattr(nn, kind)(*arguments, **keywords)

    def forward(self, x: Tensor) -> Tuple[Tensor, Any]:
        layers = self.cells.num_layers * (2 if self.cells.bidirectional else 1)
        states = [x.new_zeros(layers, x.shape[1], self.cells.hidden_size).requires_grad_() for _ in range(2)]
        return self.cells(x, tuple(states) if isinstance(self.cells, nn.LSTM) else states[0])


MODULES: Dict[str, Callable[..., nn.Module]] = {
    **{kind: functools.partial(Recurrent, kind) for kind in ("GRU", "LSTM", "RNN")},
    "ClassToken": ClassToken,
    "Conv1D": transformers_class("pytorch_utils", "Conv1D"),
    "GemmaRMSNorm": transformers_class("models.gemma.modeling_gemma", "GemmaRMSNorm"),
    "GemmaTextScaledWordEmbedding": lambda *sizes: transformers_class(
        "models.gemma3.modeling_gemma3", "Gemma3TextScaledWordEmbedding")(*sizes, padding_idx=0),
    "LayerNorm2d": layer_norm_2d,
    "LlamaRMSNorm": transformers_class("models.llama.modeling_llama", "LlamaRMSNorm"),
    "LlamaRotaryEmbedding": Rotary,
    "DoraAdapter": Dora,
    "LoraAdapter": Lora,
    "MultiheadAttention": SelfAttention,
    "NewGELU": transformers_class("activations", "NewGELUActivation"),
    "OPTLearnedPositionalEmbedding": PositionsOfOpt,
    "Parameter": Weight,
    "SharedEmbedding": Weight,
    "ShiftedWindowAttention": swin,
    "StochasticDepth": stochastic_depth,
    "T5LayerNorm": transformers_class("models.t5.modeling_t5", "T5LayerNorm"),
    "T5PositionBias": PositionBias,
    "Timesteps": timesteps,
    "WhisperPositionalEmbedding": PositionsOfWhisper,
}


def attention_interface(q: Tensor, k: Tensor, v: Tensor, bias: Any = None) -> Tensor:
    """bias: of T5's encoder."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    module = SimpleNamespace(num_key_value_groups=q.shape[1] // k.shape[1], is_causal=bias is None)
    return sdpa_attention_forward(module, q, k, v, None, position_bias=bias)[0]


def rotated(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Tuple[Tensor, Tensor]:
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb
    return apply_rotary_pos_emb(q, k, cos, sin)


def repeat_kv(x: Tensor, times: int) -> Tensor:
    from transformers.models.llama.modeling_llama import repeat_kv as repeat
    return repeat(x, times)


def patch_merge(x: Tensor) -> Tensor:
    from torchvision.models.swin_transformer import _patch_merging_pad
    return _patch_merging_pad(x)


def set_part(x: Tensor, y: Tensor, part: List[int]) -> Tensor:
    x = x.clone()
    x.narrow(part[0], part[1], part[2] - part[1]).copy_(y)
    return x


def shift_right(labels: Tensor) -> Tensor:
    shifted = labels.new_zeros(labels.shape)
    shifted[..., 1:] = labels[..., :-1].clone()
    shifted[..., 0] = 0
    return shifted.masked_fill_(shifted == -100, 0)


def pooled_logits(logits: Tensor, tokens: Tensor) -> Tensor:
    last = (torch.arange(tokens.shape[-1], device=tokens.device) * (tokens != 0).int()).argmax(-1)
    return logits[torch.arange(logits.shape[0], device=logits.device), last]


def span_logits(x: Tensor) -> Tuple[Tensor, ...]:
    return tuple(part.squeeze(-1).contiguous() for part in x.split(1, dim=-1))


def labels(shape: Any, device: torch.device) -> Tensor:
    return torch.zeros(shape, dtype=torch.int64, device=device)


# A loss is given its targets last, which are no tensors of its own.
def causal_lm_loss(x: Tensor, targets: Tensor) -> Tensor:
    from transformers.loss.loss_utils import ForCausalLMLoss
    return ForCausalLMLoss(x, targets, x.shape[-1])


def classification_loss(x: Tensor, targets: Tensor) -> Tensor:
    from transformers.loss.loss_utils import ForSequenceClassificationLoss
    return ForSequenceClassificationLoss(targets, x, SimpleNamespace(num_labels=x.shape[1], problem_type=None))


def span_loss(start: Tensor, end: Tensor, first: Tensor, last: Tensor) -> Tensor:
    from transformers.loss.loss_utils import ForQuestionAnsweringLoss
    return ForQuestionAnsweringLoss(start, end, first, last)


def token_loss(x: Tensor, targets: Tensor) -> Tensor:
    return nn.CrossEntropyLoss()(x.view(-1, x.shape[-1]), targets.view(-1))


# The shapes of integer targets by those of the inputs; other losses' targets are like their input.
TARGETS: Dict[str, Callable[..., List[Any]]] = {
    "CausalLMLoss": lambda x: [x[:2]], "CrossEntropyLoss": lambda x: [x[:1]], "NLLLoss": lambda x: [x[:1]],
    "HuggingFaceClassificationLoss": lambda x: [x[:1]], "HuggingFaceTokenLoss": lambda x: [x[:2]],
    "HuggingFaceSpanLoss": lambda x, y: [x[:1], y[:1]], "SequenceToSequenceLoss": lambda x: [x[:2]],
    "mean": lambda x: [], "sum": lambda x: [],
}

FUNCTIONS: Dict[str, Callable[..., Any]] = {
    "AMax": torch.amax, "AMin": torch.amin, "Abs": torch.abs, "All": torch.all, "Any": torch.any, "ArgMax": torch.argmax,
    "ArgMin": torch.argmin, "Addcmul": torch.addcmul, "ClampTensor": torch.clamp, "Clamp": torch.clamp,
    "Clone": torch.clone, "Cos": torch.cos, "Cumsum": torch.cumsum, "Detach": Tensor.detach, "Div": torch.div,
    "RequiresGrad": lambda x: x.requires_grad_(), "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Eq": torch.eq, "Ne": torch.ne, "Lt": torch.lt, "Le": torch.le,
    "Gt": torch.gt, "Ge": torch.ge, "Exp": torch.exp, "Log": torch.log, "Log1p": torch.log1p, "Expm1": torch.expm1, "Sqrt": torch.sqrt, "Neg": torch.neg,
    "Erf": torch.erf, "Reciprocal": torch.reciprocal, "Sin": torch.sin, "Rsqrt": torch.rsqrt, "Pow": torch.pow, "MatMul": torch.matmul,
    "Max": torch.max, "Maximum": torch.maximum, "Minimum": torch.minimum, "LogicalAnd": torch.logical_and,
    "LogicalOr": torch.logical_or, "LogicalXor": torch.logical_xor, "Sort": torch.sort, "TopK": torch.topk, "Triu": torch.triu,
    "Tril": torch.tril, "Mean": torch.mean, "Sum": torch.sum, "mean": torch.mean, "sum": torch.sum,
    "Normalize": F.normalize, "VectorNorm": torch.linalg.vector_norm, "OneHot": F.one_hot, "Roll": torch.roll,
    "GroupedMM": grouped_product, "GridSample": lambda x, grid: F.grid_sample(x, grid, align_corners=False), "CosineSimilarity": lambda x, y, dim: F.cosine_similarity(x, y, dim),
    "IndexPut": lambda x, i, v: x.index_put_((i,), v), "Scatter": lambda x, i, *rest, value=None: x.scatter_(rest[-1], i, *(rest[:-1] or (value,))),
    "Polar": lambda r, phi: torch.view_as_real(torch.polar(r.detach().float(), phi.detach().float())),
    "ComplexMul": lambda x, y: torch.view_as_real(torch.view_as_complex(x) * torch.view_as_complex(y)),
    "Histc": lambda x, bins, **k: torch.histc(x.float() if x.device.type == "cpu" else x, bins, **k), "Pad": F.pad, "Gather": lambda x, i, dim: torch.gather(x, dim, i),
    "IndexSelect": lambda x, i, dim: torch.index_select(x, dim, i), "Index": lambda x, i: x[i],
    "MaskedFill": lambda x, mask, value: x.masked_fill(mask, value), "Where": torch.where, "Interpolate": F.interpolate,
    "FloorDivide": lambda x, other: x // other, "Remainder": lambda x, other: x % other, "Not": lambda x: ~x,
    "RPow": lambda x, base: base ** x, "RSub": lambda x, other: other - x, "Scale": lambda x, factor: x * factor,
    "To": lambda x, dtype: x.to(getattr(torch, dtype)), "ToParameterType": lambda x: x.to(torch.float32),
    "TypeAs": Tensor.type_as, "Slice": lambda x, dim, start, end: x[(slice(None),) * dim + (slice(start, end),)],
    "Select": torch.select, "Unbind": torch.unbind, "Chunk": torch.chunk, "Split": torch.split,
    "Cat": lambda *xs, dim: torch.cat(xs, dim), "JoinSamples": lambda x, stacked=False: (torch.stack if stacked else torch.cat)(list(x)), "Stack": lambda *xs, dim: torch.stack(xs, dim),
    "Expand": Tensor.expand, "Unsqueeze": torch.unsqueeze, "Squeeze": torch.squeeze, "Transpose": torch.transpose,
    "Permute": lambda x, *dims: x.permute(dims), "Repeat": Tensor.repeat, "Flip": lambda x, *dims: x.flip(dims),
    "View": Tensor.view, "Reshape": Tensor.reshape, "Contiguous": Tensor.contiguous, "UnfoldDimension": Tensor.unfold,
    "WeightNorm": lambda v, g: torch._weight_norm(v, g, 0), "SetPart": set_part, "PatchMerge": patch_merge,
    "Fill": lambda x, value: x.fill_(value), "ZerosLike": torch.zeros_like, "AddPositions": torch.add,
    "ScaledDotProductAttention": F.scaled_dot_product_attention, "RepeatKV": repeat_kv, "ApplyRotaryPosEmb": rotated,
    "HuggingFaceAttention": attention_interface, "GroupedQueryAttention": attention_interface,
    "PositionBiasAttention": attention_interface, "ShiftRight": shift_right, "PooledLogits": pooled_logits,
    "SpanLogits": span_logits, "SliceLogits": lambda x: x[:, slice(-0, None), :], "CausalLMLoss": causal_lm_loss,
    "HuggingFaceClassificationLoss": classification_loss, "HuggingFaceTokenLoss": token_loss,
    "HuggingFaceSpanLoss": span_loss, "SequenceToSequenceLoss": token_loss,
}

# New tensors: their arguments and the device.
FACTORIES: Dict[str, Callable[..., Tensor]] = {
    "Arange": lambda n, device: torch.arange(n, device=device),
    "Buffer": lambda *shape, dtype, device: torch.zeros(shape, dtype=getattr(torch, dtype), device=device),
    "Constant": lambda *shape, device: torch.zeros(shape, device=device),
    "Eye": lambda *sizes, device: torch.eye(*sizes, device=device),
    "FromHost": lambda *shape, device: torch.zeros(shape).to(device),
    "Full": lambda *shape, device, **how: torch.full(shape, how.get("value", 0), device=device),
    "Linspace": lambda start, end, steps, device: torch.linspace(start, end, steps, device=device),
    "PositionIds": lambda tokens, device: torch.arange(tokens, device=device).unsqueeze(0),
    "ZeroPositionBias": lambda heads, rows, keys, device: torch.zeros(1, heads, rows, keys, device=device),
    "Zeros": lambda *shape, device: torch.zeros(shape, device=device),
}
