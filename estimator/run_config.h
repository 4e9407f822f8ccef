// What is run: everything about a step that is not in the model. Plain values with the defaults of the
// command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "estimator/dtype.h"

namespace gpuplan {

enum class Mode { train, infer };
enum class OptimizerKind { none, sgd, adam, adamw, rmsprop, adagrad, adadelta, nadam, radam, adamax };
enum class OptimizerImpl { foreach_, for_loop, fused };

/// torch.optim's arguments that decide what is allocated.
struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::sgd;
  OptimizerImpl impl = OptimizerImpl::foreach_;
  bool momentum = false;      // SGD(momentum=0.9), RMSprop(momentum=...)
  bool nesterov = false;      // SGD
  bool amsgrad = false;       // Adam, AdamW
  bool centered = false;      // RMSprop
  bool weight_decay = false;  // != 0; AdamW's default 0.01 is decoupled and costs nothing
};

/// When the Python names of the training loop let go of the output and the loss.
enum class Loop { plain, function, loss_only };
/// Which kernel scratch is counted.
enum class Scratch { full, no_cudnn, none };
enum class AllocatorKind { caching, exact, cuda_malloc };

/// A PyTorch release as major * 100 + minor: 113 is 1.13, 215 is 2.15.
using PyTorchVersion = int;
constexpr PyTorchVersion kNewestPyTorch = 215;

struct RunConfig {
  Mode mode = Mode::train;
  std::int64_t batch = 1;
  DType precision = DType::fp32;  // of the whole model
  OptimizerConfig optimizer;
  bool clip_grad_norm = false;
  Loop loop = Loop::plain;
  Scratch scratch = Scratch::full;
  AllocatorKind allocator = AllocatorKind::caching;
  std::string alloc_conf;  // as PYTORCH_ALLOC_CONF
  PyTorchVersion pytorch = kNewestPyTorch;
  std::optional<std::int64_t> context_bytes;  // --runtime: CUDA context and libraries, instead of the device's figure
  bool first_step = false;                    // --step first: the answer is the first step, not the steady one
};

}  // namespace gpuplan
