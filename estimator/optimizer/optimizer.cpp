#include "estimator/optimizer/optimizer.h"

#include <map>
#include <string>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"
#include "estimator/optimizer/implementations.h"
#include "estimator/optimizer/step_builder.h"

namespace gpuplan {
namespace {

constexpr PyTorchVersion kFirstModernForeach = 201;
constexpr PyTorchVersion kFirstFusedAdam = 113;
constexpr PyTorchVersion kFirstFusedAdamW = 200;
constexpr PyTorchVersion kFirstFusedSgd = 203;
constexpr PyTorchVersion kFirstFusedAdagrad = 204;      // on the CPU: pytorch/pytorch#124905
constexpr PyTorchVersion kFirstFusedAdagradCuda = 212;  // pytorch/pytorch#153038, Python side #177672
// zeros_like on CUDA is a memset in 2.15 and a kernel in 2.8 (recorded); 2.9 is taken.
constexpr PyTorchVersion kFirstZerosByMemset = 209;

constexpr std::int64_t kStepCounterBytes = 4;  // a float32 scalar

std::string_view class_name(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::none: return "none";
    case OptimizerKind::sgd: return "SGD";
    case OptimizerKind::adam: return "Adam";
    case OptimizerKind::adamw: return "AdamW";
    case OptimizerKind::rmsprop: return "RMSprop";
    case OptimizerKind::adagrad: return "Adagrad";
    case OptimizerKind::adadelta: return "Adadelta";
    case OptimizerKind::nadam: return "NAdam";
    case OptimizerKind::radam: return "RAdam";
    case OptimizerKind::adamax: return "Adamax";
  }
  return "";
}

/// The first release whose constructor knows fused=, or 0 for none.
PyTorchVersion first_fused(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::sgd: return kFirstFusedSgd;
    case OptimizerKind::adam: return kFirstFusedAdam;
    case OptimizerKind::adamw: return kFirstFusedAdamW;
    case OptimizerKind::adagrad: return kFirstFusedAdagrad;
    default: return 0;
  }
}

std::string version_text(PyTorchVersion version) {
  return std::to_string(version / 100) + "." + std::to_string(version % 100);
}

[[noreturn]] void refuse_fused(OptimizerKind kind, PyTorchVersion pytorch, const std::string& message,
                               PyTorchVersion available) {
  Error error(message, ErrorKind::usage);
  std::string help = "PyTorch " + version_text(pytorch) + " has no fused " + std::string(class_name(kind)) +
                     " on CUDA: use --opt-impl foreach or for-loop";
  if (available != 0) help += ", or --pytorch " + version_text(available) + " or newer";
  error.help(help);
  throw error;
}

/// Throws what torch.optim's constructor throws.
void check(const OptimizerConfig& config, PyTorchVersion pytorch) {
  if (config.nesterov && !config.momentum) {
    Error error("Nesterov momentum requires a momentum and zero dampening", ErrorKind::usage);
    error.help("use --opt nesterov, which has both");
    throw error;
  }
  if (config.impl != OptimizerImpl::fused || config.kind == OptimizerKind::none) return;
  const PyTorchVersion available = first_fused(config.kind);
  if (available == 0 || pytorch < available) {
    refuse_fused(config.kind, pytorch,
                 std::string(class_name(config.kind)) + ".__init__() got an unexpected keyword argument 'fused'",
                 config.kind == OptimizerKind::adagrad ? kFirstFusedAdagradCuda : available);
  }
  if (config.kind == OptimizerKind::adagrad && pytorch < kFirstFusedAdagradCuda) {
    refuse_fused(config.kind, pytorch,
                 "`fused=True` requires all the params to be floating point Tensors of supported devices: "
                 "['mps', 'xpu', 'hpu', 'cpu', 'privateuseone'] but torch.float32 and cuda",
                 kFirstFusedAdagradCuda);
  }
}

/// Tensors like the parameter that _init_group makes in the first step.
int zero_states(const OptimizerConfig& config) {
  switch (config.kind) {
    case OptimizerKind::none:
    case OptimizerKind::adagrad: return 0;  // made by the constructor
    case OptimizerKind::sgd: return 0;      // a clone of the gradient, made during the step
    case OptimizerKind::adam:
    case OptimizerKind::adamw: return config.amsgrad ? 3 : 2;
    case OptimizerKind::rmsprop: return 1 + (config.momentum ? 1 : 0) + (config.centered ? 1 : 0);
    case OptimizerKind::adadelta:
    case OptimizerKind::nadam:
    case OptimizerKind::radam:
    case OptimizerKind::adamax: return 2;
  }
  return 0;
}

void create_states(const OptimizerStep& step, StepBuilder& builder) {
  const OptimizerConfig& config = step.config;
  const bool fused = config.impl == OptimizerImpl::fused;
  if (config.kind == OptimizerKind::sgd) {
    if (!fused || !config.momentum) return;
    for (const OptimizerParameter& parameter : step.parameters) builder.state(bytes_of(parameter));  // empty_like
    return;
  }
  const int zeros = zero_states(config);
  if (zeros == 0) return;
  for (const OptimizerParameter& parameter : step.parameters) {
    if (fused) builder.state(kStepCounterBytes);
    for (int i = 0; i < zeros; ++i) builder.state(bytes_of(parameter));
  }
  if (step.pytorch < kFirstZerosByMemset) {
    builder.count_kernels(static_cast<std::int64_t>(step.parameters.size()) * (zeros + (fused ? 1 : 0)));
  }
}

/// Arithmetic operations per element of the update rule as torch.optim's documentation writes it, with scalar
/// factors folded together: m = b1 m + (1 - b1) g is 3, v = b2 v + (1 - b2) g g is 4, p - lr m / d is 3.
std::int64_t update_flops(const OptimizerConfig& config, bool first) {
  const std::int64_t decay = config.weight_decay ? 2 : 0;  // g + lambda p
  switch (config.kind) {
    case OptimizerKind::none: return 0;
    case OptimizerKind::sgd:  // p - lr g; mu b + g; g + mu b
      return decay + 2 + (config.momentum ? 2 : 0) + (config.nesterov ? 2 : 0);
    case OptimizerKind::adam: return decay + 13 + (config.amsgrad ? 1 : 0);  // m, v, sqrt, / bias, + eps, p
    case OptimizerKind::adamw: return 14 + (config.amsgrad ? 1 : 0);         // and p (1 - lr lambda)
    case OptimizerKind::rmsprop:  // v, sqrt, + eps, p; the mean and v - mean^2; mu b + g / d and p - lr b
      return decay + 9 + (config.centered ? 5 : 0) + (config.momentum ? 2 : 0);
    case OptimizerKind::adagrad: return decay + 7;    // s + g g, sqrt, + eps, p
    case OptimizerKind::adadelta: return decay + 16;  // v, two roots of x + eps, their quotient times g, u, p
    case OptimizerKind::nadam: return decay + 16;     // m, v, / bias, sqrt, + eps, p twice
    case OptimizerKind::radam: return decay + (first ? 10 : 15);  // rectified from the sixth step on
    case OptimizerKind::adamax: return decay + 10;                // m, b2 u, |g|, + eps, max, p
  }
  return 0;
}

std::int64_t total_elements(std::span<const OptimizerParameter> parameters) {
  std::int64_t elements = 0;
  for (const OptimizerParameter& parameter : parameters) elements = checked_add(elements, parameter.elements);
  return elements;
}

}  // namespace

OptimizerProgram optimizer_step(std::span<const OptimizerParameter> parameters, const OptimizerConfig& config,
                                PyTorchVersion pytorch, const Gpu& /*gpu*/, bool first) {
  check(config, pytorch);
  StepBuilder builder(parameters.size() * (first ? 8 : 5));
  const OptimizerStep step{parameters, config, pytorch, first};
  if (config.bitsandbytes) {
    bitsandbytes_step(step, builder);
    return builder.take();
  }
  if (first) create_states(step, builder);
  switch (config.impl) {
    case OptimizerImpl::for_loop: for_loop_step(step, builder); break;
    case OptimizerImpl::fused:
      if (config.kind != OptimizerKind::none) fused_step(step, builder);
      break;
    case OptimizerImpl::foreach_:
      if (pytorch < kFirstModernForeach) {
        foreach_step_1_13(step, builder);
      } else {
        foreach_step(step, builder);
      }
      break;
  }
  builder.count_flops(checked_mul(total_elements(parameters), update_flops(config, first)));
  return builder.take();
}

std::int64_t state_bytes(std::span<const OptimizerProgram* const> programs, std::int64_t unit) {
  std::int64_t bytes = 0;
  std::map<std::int32_t, std::vector<std::int64_t>> of_slot;  // the oldest first
  for (const OptimizerProgram* program : programs)
    for (const OptimizerEvent& e : program->events) {
      if (e.kind == OptimizerEvent::Kind::alloc_state) {
        of_slot[e.slot].push_back(ceil_div(e.bytes, unit) * unit);
        bytes = checked_add(bytes, of_slot[e.slot].back());
      } else if (e.kind == OptimizerEvent::Kind::free_state) {
        std::vector<std::int64_t>& sizes = of_slot[e.slot];
        bytes -= sizes.front();
        sizes.erase(sizes.begin());
      }
    }
  return bytes;
}

OptimizerProgram optimizer_construction(std::span<const OptimizerParameter> parameters, const OptimizerConfig& config,
                                        PyTorchVersion pytorch) {
  check(config, pytorch);
  StepBuilder builder(parameters.size() * 2);
  if (config.kind != OptimizerKind::adagrad) return builder.take();
  for (const OptimizerParameter& parameter : parameters) {
    if (config.impl == OptimizerImpl::fused) builder.state(kStepCounterBytes);
    builder.state(bytes_of(parameter));
  }
  builder.count_kernels(static_cast<std::int64_t>(parameters.size()));  // full_like
  return builder.take();
}

int states_like_parameter(const OptimizerConfig& config) {
  if (config.kind == OptimizerKind::adagrad) return 1;
  if (config.kind == OptimizerKind::sgd) return config.momentum ? 1 : 0;
  return zero_states(config);
}

}  // namespace gpuplan
