// What one optimizer.step() and clip_grad_norm_ allocate, kernel by kernel: the states in the first
// step, the temporaries in every one. Rules: torch/optim/*.py of each release (which lists a foreach
// implementation keeps, when a for-loop's temporaries die), checked against recorded traces.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// A parameter that has a gradient, in the order of model.parameters().
struct OptimizerParameter {
  std::int64_t elements = 0;
  DType dtype = DType::fp32;
  /// Of a gradient that is summed over the ranks of tensor parallelism whenever it is read; 0: there is nothing to sum.
  std::int64_t partial_elements = 0;
  bool overrides_8bit = false;  // bitsandbytes' GlobalOptimManager was told of 32 bits
};

/// One thing that happens to memory, in order. `slot` names a tensor within the program; a state's slot
/// is alive when the program ends, every temporary is freed in it.
struct OptimizerEvent {
  enum class Kind : std::uint8_t {
    alloc_state,
    alloc_tensor,
    alloc_scratch,
    free,
    alloc_gradient,
    free_gradient,
    free_state,
    alloc_input,
    free_input,
    drop_input
  };
  Kind kind;
  std::int32_t slot;
  std::int64_t bytes;  // unrounded; 0 for free
  // alloc_tensor: a tensor that Python or C++ optimizer code creates (counted with --scratch none);
  // alloc_scratch: inside one kernel (left out with --scratch none);
  // free_state: the oldest state of the slot, whose place a new one takes;
  // alloc_input, free_input: of a slot of the loop's own, which has what a name is bound to until it is bound anew: the
  // latest stays; drop_input: it goes, too;
  // alloc_gradient: lives until the next zero_grad; free_gradient: of the parameter `slot` of those with a gradient.
};

struct OptimizerProgram {
  std::vector<OptimizerEvent> events;
  std::int64_t kernels = 0;            // launches, modelled
  std::int64_t elementwise_flops = 0;  // one per element and arithmetic operation of the update rule
  std::int64_t product_flops = 0;      // of matrix products
  DType product_type = DType::fp32;
  std::int64_t bytes_moved = 0;  // 0: what the update of parameters and states moves
};

/// Of the states that are there after `programs`, in their order, each rounded up to a multiple of `unit`.
std::int64_t state_bytes(std::span<const OptimizerProgram* const> programs, std::int64_t unit = 1);

/// The step. `first`: no state exists yet, it is created on the way. Throws Error for a combination
/// that PyTorch refuses (fused Adadelta, foreach in a version without it, ...).
OptimizerProgram optimizer_step(std::span<const OptimizerParameter> parameters, const OptimizerConfig& config,
                                PyTorchVersion pytorch, const Gpu& gpu, bool first);

/// Tensors like the parameter that are there after the first step.
int states_like_parameter(const OptimizerConfig& config);

/// State that exists before the first step (Adagrad creates its sums in its constructor): alloc_state
/// events only.
OptimizerProgram optimizer_construction(std::span<const OptimizerParameter> parameters, const OptimizerConfig& config,
                                        PyTorchVersion pytorch);

/// Of paged states, bytes of managed memory (cudaMallocManaged): on the host, and on the device while they fit.
std::int64_t managed_bytes(std::span<const OptimizerParameter> parameters, const OptimizerConfig& config);

/// Of gradients that are DTensors of two dimensions of ranks, FSDP2's and tensor parallelism's with sequence
/// parallelism, how many all of the latter have.
struct SharedGradients {
  bool are = false;
  std::int64_t whole = 0;
};

/// torch.nn.utils.clip_grad_norm_(parameters, 1.0) between backward and step.
OptimizerProgram clip_grad_norm(std::span<const OptimizerParameter> parameters, PyTorchVersion pytorch, const Gpu& gpu,
                                SharedGradients shared = {});

}  // namespace gpuplan
