// bitsandbytes 0.50's optimizers (bitsandbytes/optim/optimizer.py): parameter after parameter, states made where it is
// first stepped, and one kernel that allocates nothing.
#include "estimator/base/integers.h"
#include "estimator/optimizer/implementations.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kFewestOf8bit = 4096;    // min_8bit_size: a smaller parameter's states are fp32
constexpr std::int64_t kFewestPaged = 100'000;  // get_state_buffer: a smaller one's are not paged
constexpr std::int64_t kBlock = 256;            // states that have a scale together
constexpr std::int64_t kMapBytes = 256 * 4;     // the values of 8 bits, once an optimizer: name2qmap
constexpr std::int64_t kScaleBytes = 4;

using Rule = BitsandbytesOptimizer::Rule;

bool has_two_states(Rule rule) {
  return rule == Rule::adam || rule == Rule::adamw || rule == Rule::lamb || rule == Rule::ademamix;
}

/// Arithmetic operations per element, counted as those of torch.optim's rules (optimizer.cpp).
std::int64_t flops_of(Rule rule) {
  switch (rule) {
    case Rule::adam: return 13;
    case Rule::adamw: return 14;
    case Rule::lion: return 9;       // the sign of a sum of m and g, m, p
    case Rule::ademamix: return 18;  // adam's, with a second mean
    case Rule::sgd: return 4;
    case Rule::rmsprop: return 9;
    case Rule::adagrad: return 7;
    case Rule::lamb: return 17;  // adam's, and two norms
    case Rule::lars: return 8;
  }
  return 0;
}

class States {
 public:
  States(const BitsandbytesOptimizer& config, StepBuilder& builder) : config_(config), builder_(builder) {}

  void make(const OptimizerParameter& p) {
    const bool eight_bit = config_.eight_bit && p.elements >= kFewestOf8bit && !p.overrides_8bit;
    if (eight_bit && !has_maps_) {
      for (int i = 0; i < states(); ++i) builder_.state(kMapBytes);
      has_maps_ = true;
    }
    const std::int64_t bytes = eight_bit ? 1 : 4;
    const bool doubled = config_.rule == Rule::ademamix;  // its first state is two, made after the scales
    if (doubled && eight_bit) scales(p, 2);
    buffer(p, (doubled ? 2 : 1) * bytes);
    if (states() == 2) buffer(p, bytes);
    if (!doubled && eight_bit) scales(p, 1);
    // max_unorm > 0
    if (config_.rule == Rule::lamb || config_.rule == Rule::lars) builder_.state(kScaleBytes);
  }

 private:
  int states() const { return has_two_states(config_.rule) ? 2 : 1; }
  void scales(const OptimizerParameter& p, std::int64_t first) {
    const std::int64_t bytes = ceil_div(p.elements, kBlock) * kScaleBytes;
    builder_.state(bytes * first);
    if (states() == 2) builder_.state(bytes);
  }
  // Managed memory is none of PyTorch's allocator.
  void buffer(const OptimizerParameter& p, std::int64_t bytes_each) {
    if (!config_.paged || p.elements < kFewestPaged) builder_.state(checked_mul(p.elements, bytes_each));
  }

  const BitsandbytesOptimizer& config_;
  StepBuilder& builder_;
  bool has_maps_ = false;
};

}  // namespace

void bitsandbytes_step(const OptimizerStep& step, StepBuilder& builder) {
  const BitsandbytesOptimizer& config = *step.config.bitsandbytes;
  States states(config, builder);
  const bool by_norm = config.rule == Rule::lamb || config.rule == Rule::lars;
  for (const OptimizerParameter& parameter : step.parameters) {
    if (step.first) states.make(parameter);
    builder.count_flops(checked_mul(parameter.elements, flops_of(config.rule)));
    if (!by_norm) continue;
    Tensors wide, norm;  // torch.norm(p.data.float())
    if (parameter.dtype != DType::fp32) wide = builder.tensor(checked_mul(parameter.elements, 4));
    norm = builder.tensor(4);
    builder.drop(wide);
    builder.drop(norm);
  }
  builder.count_kernels(static_cast<std::int64_t>(step.parameters.size()));
}

std::int64_t managed_bytes(std::span<const OptimizerParameter> parameters, const OptimizerConfig& optimizer) {
  std::int64_t bytes = 0;
  if (!optimizer.bitsandbytes || !optimizer.bitsandbytes->paged) return bytes;
  const BitsandbytesOptimizer& config = *optimizer.bitsandbytes;
  const std::int64_t states = config.rule == Rule::ademamix ? 3 : has_two_states(config.rule) ? 2 : 1;
  for (const OptimizerParameter& p : parameters)
    if (p.elements >= kFewestPaged)
      bytes = checked_add(bytes,
                          checked_mul(checked_mul(p.elements, states), config.eight_bit && !p.overrides_8bit ? 1 : 4));
  return bytes;
}

}  // namespace gpuplan
