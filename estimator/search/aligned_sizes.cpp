#include "estimator/search/aligned_sizes.h"

#include <algorithm>
#include <map>
#include <variant>

namespace gpuplan {
namespace {

constexpr std::int64_t kVector = 16;     // bytes
constexpr std::int64_t kLeastSize = 32;  // smaller numbers are kernels, strides and heads as often as sizes

void add_sizes(const OperandView& view, std::int64_t flops, std::map<std::int64_t, UnalignedSize>& sizes) {
  if (view.buffer == kNone || view.shape.rank() < 2) return;
  for (int i = view.shape.rank() - 2; i < view.shape.rank(); ++i) {
    const std::int64_t stride = view.strides[i];
    if (view.shape[i] <= 1 || stride < kLeastSize || stride * size_of(view.dtype) % kVector == 0) continue;
    UnalignedSize& size = sizes[stride];
    size.size = stride;
    size.flops += flops;
    size.dtype = view.dtype;
  }
}

struct Replace {
  std::int64_t size, other;

  void in(Value& value) const {
    if (auto* number = std::get_if<std::int64_t>(&value.as); number != nullptr && *number == size) *number = other;
    if (auto* list = std::get_if<std::vector<Value>>(&value.as))
      for (Value& v : *list) in(v);
  }
  void in(LayerCall& call) const {
    for (Argument& a : call.arguments) in(a.value);
  }
  void in(Body& body) const {
    for (Node& node : body) std::visit([&](auto& what) { in(what); }, node.what);
  }
  void in(Block& block) const { in(block.body); }
  void in(Repeat& repeat) const { in(repeat.items); }
  void in(Residual& residual) const { in(residual.body), in(residual.shortcut); }
  void in(Parallel& parallel) const {
    for (Parallel::Branch& b : parallel.branches) in(b.body);
  }
};

}  // namespace

std::vector<UnalignedSize> unaligned_sizes(const MicroBatchSchedules& micro_batches) {
  std::map<std::int64_t, UnalignedSize> sizes;
  const Calls& calls = micro_batches.calls.front();
  for (const KernelCall& call : calls.calls) {
    const ScheduledOp& step = micro_batches.schedules.front().ops[static_cast<std::size_t>(call.step)];
    if (step.what == nullptr || !std::holds_alternative<Gemm>(*step.what)) continue;
    const auto reads = calls.at(call.reads);
    for (const OperandView& view : reads.first(std::min<std::size_t>(reads.size(), 2)))
      add_sizes(view, 2 * cost(*step.what).macs, sizes);
  }
  std::vector<UnalignedSize> most;
  for (const auto& [size, found] : sizes) most.push_back(found);
  std::ranges::stable_sort(most, std::ranges::greater{}, &UnalignedSize::flops);
  return most;
}

Model with_size(const Model& model, std::int64_t size, std::int64_t other) {
  Model changed = model;
  const Replace replace{size, other};
  replace.in(changed.layers);
  replace.in(changed.losses);
  replace.in(changed.loss);
  for (Variable& v : changed.vars)
    if (v.value == size) v.value = other;
  return changed;
}

std::string size_change(const Model& model, std::int64_t size, std::int64_t other) {
  const auto is_it = [&](const Variable& v) { return v.value == size; };
  const auto found = std::ranges::find_if(model.vars, is_it);
  if (std::ranges::count_if(model.vars, is_it) == 1) return "--set " + found->name + "=" + std::to_string(other);
  return std::to_string(other) + " instead of " + std::to_string(size);
}

}  // namespace gpuplan
