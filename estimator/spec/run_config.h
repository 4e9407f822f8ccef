// RunConfig: everything about a step that is not part of the model. Plain values, with the defaults of the command
// line.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "estimator/base/dtype.h"
#include "estimator/base/strides.h"
#include "estimator/spec/lora_config.h"
#include "estimator/spec/tensor_layout.h"

namespace gpuplan {

class OptimizerRecorder;

enum class Mode { train, infer };
enum class OptimizerKind { none, sgd, adam, adamw, rmsprop, adagrad, adadelta, nadam, radam, adamax };
enum class OptimizerImpl { foreach_, for_loop, fused };

/// What a job saves between two steps: model and optimizer whole, the model whole, or of each rank its own part.
enum class SavedCheckpoint : std::uint8_t { none, full, model, sharded };

/// One of bitsandbytes' optimizers. eight_bit: with states of 8 bits; paged: with states in managed memory.
struct BitsandbytesOptimizer {
  enum class Rule : std::uint8_t { adam, adamw, lion, ademamix, sgd, rmsprop, adagrad, lamb, lars } rule = Rule::adamw;
  bool eight_bit = false;
  bool paged = false;
};
/// torch.optim has one of this name, so that bitsandbytes' is called with its bits: adamw32bit.
constexpr bool is_in_torch(BitsandbytesOptimizer::Rule rule) {
  using enum BitsandbytesOptimizer::Rule;
  return rule != lion && rule != ademamix && rule != lamb && rule != lars;
}

/// torch.optim's arguments that decide what is allocated.
struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::sgd;
  OptimizerImpl impl = OptimizerImpl::foreach_;
  bool momentum = false;      // SGD(momentum=0.9), RMSprop(momentum=...)
  bool nesterov = false;      // SGD
  bool amsgrad = false;       // Adam, AdamW
  bool centered = false;      // RMSprop
  bool weight_decay = false;  // != 0; AdamW's default 0.01 is decoupled and costs nothing
  std::optional<BitsandbytesOptimizer> bitsandbytes = std::nullopt;  // instead: `kind` is none
  std::shared_ptr<const OptimizerRecorder> recorder = nullptr;       // instead: `kind` is none
  bool steps() const { return kind != OptimizerKind::none || bitsandbytes || recorder; }
};

/// Of a Hugging Face decoder: PyTorch's, or Liger-Kernel's (use_liger_kernel=True).
enum class Kernels : std::uint8_t { torch, liger };

/// When the Python names of the training loop let go of the output and the loss.
enum class Loop { plain, function, loss_only };
/// Whose training loop takes the steps: that of PyTorch's tutorials, transformers' Trainer, a loop of one's own with
/// accelerate, or Lightning's.
enum class Like : std::uint8_t { pytorch, trainer, accelerate, lightning };
/// When gradients are zeroed: before the forward, or between it and backward, as PyTorch's ImageNet example and
/// torchvision's training scripts do, so that those of the last step are alive in the forward.
enum class ZeroGrad : std::uint8_t { forward, backward };
/// Lightning's plugin says torch.autocast(cache_enabled=False) (pytorch/plugins/precision/amp.py).
constexpr bool caches_casts(Like like) { return like != Like::lightning; }
constexpr bool uses_accelerate(Like like) { return like == Like::trainer || like == Like::accelerate; }
/// Which kernel scratch is counted.
enum class Scratch { full, no_cudnn, none };
/// Where cudaMalloc places what PyTorch's allocator asks for, which decides between free blocks of one size: each above
/// the one before and never used again, or by NVIDIA's driver's rule (estimator/allocator/driver_addresses.h). In a
/// process the host's mappings lie between; tests/reference/h200/README.md says how often either is right.
enum class SegmentOrder : std::uint8_t { rising, driver };
enum class AllocatorKind { caching, exact, cuda_malloc };

/// A PyTorch release as major * 100 + minor: 113 is 1.13, 215 is 2.15.
using PyTorchVersion = int;
constexpr PyTorchVersion kNewestPyTorch = 215;

/// Which kernel scaled_dot_product_attention is asked to run. eager: the model's own Python code.
enum class Attention { automatic, flash, efficient, cudnn, math, eager };

/// What is run again in backward instead of being kept.
struct CheckpointConfig {
  enum class Kind { as_written, none, block, every, glob, op } kind = Kind::as_written;  // op: torchtitan's
  std::int64_t every = 1;  // every=N: each Nth block of a repeat
  std::string glob;        // of block paths
  bool reentrant = false;  // with use_reentrant=True
};

/// What of an autoregressive generation is planned, with its cache of keys and values.
struct Generation {
  enum class Part { none, prefill, decode } part = Part::none;  // none: one forward without a cache
  enum class Cache { dynamic, fixed, paged } cache = Cache::dynamic;
  std::int64_t prompt = 0;    // tokens given
  std::int64_t generate = 1;  // tokens made; decode is planned at the last one
  std::int64_t tokens() const { return prompt + generate; }
};

/// Forms that weights are stored in. int8 (LLM.int8), nf4 and fp4 (with _double their scales are quantized as well) are
/// bitsandbytes', whose modules are run; int4 and fp8 are sizes, for inference.
enum class WeightFormat { as_computed, int8, int4, fp8, nf4, nf4_double, fp4, fp4_double };
constexpr bool is_bitsandbytes_4bit(WeightFormat format) { return format >= WeightFormat::nf4; }
constexpr bool is_bitsandbytes(WeightFormat format) {
  return format == WeightFormat::int8 || is_bitsandbytes_4bit(format);
}
constexpr bool quantizes_scales(WeightFormat format) {
  return format == WeightFormat::nf4_double || format == WeightFormat::fp4_double;
}

/// What an evaluation keeps on the device.
struct EvaluationConfig {
  bool keeps_logits = false;            // of all its batches, as Trainer does for compute_metrics
  std::int64_t accumulation_steps = 0;  // they go to the host after so many; 0: at the end
};

/// What is run of a model that torch.distributed.pipelining has cut: the first stage is given tokens, the last one has
/// a loss, and the others are given hidden states and the gradient of theirs.
struct StageOfRun {
  bool first = true, last = true;
};

/// torch.amp.GradScaler(init_scale), which fp16 autocast trains with.
constexpr double kInitialScale = 65536;

/// Of context parallelism, whether _HeadTailLoadBalancer gives each rank a part from the front of a sample and one from
/// its end, which it does where `tokens`, a rank's, are of two equal parts.
constexpr bool balances_context(std::int64_t tokens) { return tokens % 2 == 0; }

struct RunConfig {
  Mode mode = Mode::train;
  std::int64_t batch = 1;
  std::int64_t tensor_ranks = 1;  // that share each layer (estimator/graph/tensor_style.h); the model is one rank's
  TensorPlan tensor_plan;
  /// That share the experts of each mixture, as transformers does it: every rank sends each of its (token, expert)
  /// pairs to the rank that has the expert, and is sent `expert_load` times as many as it sends.
  std::int64_t expert_ranks = 1;
  double expert_load = 1;
  /// That share the tokens of each sample (torch.distributed.tensor's context parallelism), and which of them it is.
  std::int64_t context_ranks = 1, context_rank = 0;
  std::int64_t micro_batches = 1;  // the batch is run in so many parts, their gradients accumulated
  std::optional<StageOfRun> stage;
  DType precision = DType::fp32;      // of the whole model
  std::optional<DType> buffer_type;   // of its floating buffers, where nothing converts them; else `precision`
  std::optional<DType> cast_buffers;  // FSDP1's buffer_dtype: what all of them are before the model runs
  /// DeepSpeed's, which divides the loss by the number of micro-batches, and converts adapters with the model, unless
  /// zero.Init has made that; on the host they lie in half precision, too.
  bool in_engine = false, converts_adapters = false;
  /// Accelerate around FSDP2: the policy's output_dtype converts the loss that the model returns, and backward divides
  /// it by the number of micro-batches, be that 1.
  bool divides_loss = false;
  bool wraps_blocks = false;  // in checkpoints of its own (fsdp2_apply_ac), which leave the model's inputs as they are
  std::optional<DType> returned_loss;
  bool copies_outputs = false;  // DDP with find_unused_parameters, of what the model returns
  /// F.linear is DeepSpeed's own (zero/linear.py), whose backward has its input whether its weight is trained or not.
  bool linear_saves_input = false;
  /// What parameters take their first gradient in (Tensor.grad_dtype); nothing: each in its own type. Others are added
  /// to it as they come.
  std::optional<DType> gradient_type;
  /// What those take each gradient in of which all ranks of tensor parallelism have all, and whose gradients are of
  /// some of the tokens: FSDP2 sums these before it reduces (FSDPParam.may_reduce_grad_outside_dp).
  std::optional<DType> norm_gradient_type;
  std::optional<DType> given_type;  // of floating inputs, where FSDP2's root converts them; else `precision`
  std::optional<DType> autocast;    // torch.autocast's type: fp16 or bf16
  bool scales_gradients() const {   // with a GradScaler, as fp16 needs
    return autocast == DType::fp16 && mode == Mode::train;
  }
  bool tf32 = false;                               // matrix products may compute in TF32; no byte changes
  MemoryFormat layout = MemoryFormat::contiguous;  // channels_last: model and images .to(channels_last)
  Attention attention = Attention::automatic;
  CheckpointConfig checkpoint;
  bool master_weights = false;         // fp32 copies of half-precision parameters, which the optimizer steps
  bool optimizer_in_backward = false;  // each parameter is stepped, and its gradient freed, as soon as that is there
  bool offload_optimizer = false;      // states and step on the host
  bool offload_saved = false;          // saved tensors wait on the host (torch.autograd.graph.save_on_cpu)
  WeightFormat weights = WeightFormat::as_computed;
  std::optional<Lora> lora;  // --lora, of a model that has no lora: of its own
  Generation generation;
  /// An inference is given labels, of which the model computes its loss, as Trainer.evaluate() does.
  bool labels = false;
  /// An inference is one of an evaluation between steps of training: the loop computes its loss as the training's does.
  bool evaluates = false;
  EvaluationConfig evaluation;
  bool in_training() const { return mode == Mode::train || evaluates; }  // the model is one that is trained
  OptimizerConfig optimizer;
  bool clip_grad_norm = false;
  SavedCheckpoint save = SavedCheckpoint::none;
  Loop loop = Loop::plain;
  ZeroGrad zero_grad = ZeroGrad::forward;
  /// Lightning's closure zeroes gradients before backward, too.
  bool gradients_live_in_forward() const {
    return mode == Mode::train && (zero_grad == ZeroGrad::backward || like == Like::lightning);
  }
  Like like = Like::pytorch;
  Kernels kernels = Kernels::torch;  // of the model, which was read accordingly
  Scratch scratch = Scratch::full;
  AllocatorKind allocator = AllocatorKind::caching;
  std::string alloc_conf;  // as PYTORCH_ALLOC_CONF
  SegmentOrder segments = SegmentOrder::rising;
  PyTorchVersion pytorch = kNewestPyTorch;
  std::optional<std::int64_t> context_bytes;  // --runtime: CUDA context and libraries, instead of the device's figure
  bool first_step = false;                    // --step first: the answer is the first step, not the steady one
};

}  // namespace gpuplan
