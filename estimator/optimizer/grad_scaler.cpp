#include "estimator/optimizer/grad_scaler.h"

namespace gpuplan {
namespace {

using Kind = OptimizerEvent::Kind;

constexpr std::int64_t kFloat = 4, kDouble = 8;
constexpr std::int32_t kOwnSlots = 8;  // the optimizer's come after them

void allocate(OptimizerProgram& p, std::int32_t slot, std::int64_t bytes) {
  p.events.push_back({Kind::alloc_tensor, slot, bytes});
}
void release(OptimizerProgram& p, std::int32_t slot) { p.events.push_back({Kind::free, slot, 0}); }

enum Slot : std::int32_t {
  found_inf_on_device = kFoundInfSlot,
  inverse_on_device,
  inverse,
  found_inf,
  wide,
  wide_inverse,
  sum,
  scale
};

// _unscale_grads_ and its caller: 1 / scale in fp64, found_inf, and both on the gradients' device.
void unscale(OptimizerProgram& p, bool fused) {
  if (!fused) {
    allocate(p, wide, kDouble);
    allocate(p, wide_inverse, kDouble);
    release(p, wide);
  }
  allocate(p, inverse, kFloat);
  if (!fused) release(p, wide_inverse);
  allocate(p, found_inf, kFloat);
  allocate(p, found_inf_on_device, kFloat);
  allocate(p, inverse_on_device, kFloat);
  for (const Slot s : {inverse_on_device, inverse, found_inf}) release(p, s);
  p.kernels += 5;
}

void append_shifted(OptimizerProgram& p, const OptimizerProgram& program) {
  for (OptimizerEvent e : program.events) {
    e.slot += kOwnSlots;
    p.events.push_back(e);
  }
}

}  // namespace

OptimizerProgram grad_scaler_state() {
  OptimizerProgram p;
  allocate(p, kScaleSlot, kFloat);
  allocate(p, kGrowthTrackerSlot, kFloat);
  p.kernels = 2;
  return p;
}

OptimizerProgram grad_scaler_clip(const OptimizerProgram& clip) {
  OptimizerProgram p;
  unscale(p, false);
  append_shifted(p, clip);
  p.kernels += clip.kernels;
  p.elementwise_flops = clip.elementwise_flops;
  return p;
}

OptimizerProgram grad_scaler_step(const OptimizerProgram& step, OptimizerImpl impl, bool unscaled) {
  OptimizerProgram p;
  const bool fused = impl == OptimizerImpl::fused;
  if (!unscaled) unscale(p, fused);
  if (fused) {
    allocate(p, sum, kFloat);
    if (!unscaled) allocate(p, scale, kFloat);
  }
  append_shifted(p, step);
  if (fused) {
    if (!unscaled) release(p, scale);
    release(p, sum);
  }
  release(p, found_inf_on_device);
  p.kernels += step.kernels + 1;
  p.elementwise_flops = step.elementwise_flops;
  p.product_flops = step.product_flops;
  p.product_type = step.product_type;
  p.bytes_moved = step.bytes_moved;
  return p;
}

}  // namespace gpuplan
