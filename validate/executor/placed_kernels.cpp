#include "validate/executor/placed_kernels.h"

#include <algorithm>
#include <string_view>

#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

KernelTensor scalar_at(std::uint64_t address) {
  KernelTensor t;
  t.data = pointer(address);
  return t;
}

}  // namespace

KernelTensor tensor_at(const OperandView& view, std::uint64_t address) {
  KernelTensor t;
  t.dtype = view.dtype;
  t.rank = view.shape.rank();
  for (int i = 0; i < t.rank; ++i) t.sizes[i] = view.shape[i], t.strides[i] = view.strides[i];
  if (address != 0) t.data = pointer(address + static_cast<std::uint64_t>(view.offset * size_of(view.dtype)));
  return t;
}

bool allocates_only(const ScheduledOp& step) {
  return step.what != nullptr && std::holds_alternative<Marker>(*step.what);
}

PlacedKernels::PlacedKernels(const RankStep& rank, std::uint64_t seed, bool repeatable) : rank_(rank), seed_(seed) {
  kernel_.repeatable = repeatable;
  const Graph& graph = rank.graph;
  addresses_.assign(rank.micro_batches.schedules.back().buffers.size(), 0);
  part_bytes_.assign(addresses_.size(), 0);
  for (const TensorId t : graph.inputs) {
    const BufferId b = graph.tensor(t).buffer;
    part_bytes_[index(b)] = graph.buffers[index(b)].bytes / rank.run.micro_batches;
  }
  for (const Op& op : graph.forward_ops) forward_.emplace(&op.what, forward_.size());
  // Attention draws again in backward what it drew in forward.
  for (const AutogradNode& n : graph.nodes)
    for (std::int32_t i = n.ops.begin; i < n.ops.end && n.op != kNone; ++i)
      forward_.emplace(&graph.backward_ops[index(i)].what, index(n.op));
}

void PlacedKernels::begin(int training_step, std::int64_t micro_batch) {
  micro_batch_ = micro_batch;
  passed_ = static_cast<std::uint64_t>(training_step * rank_.run.micro_batches + micro_batch);
}

KernelTensor PlacedKernels::tensor(const OperandView& view) const {
  if (view.buffer == kNone) return {};
  std::uint64_t address = addresses_[index(view.buffer)];
  if (address != 0) address += static_cast<std::uint64_t>(micro_batch_ * part_bytes_[index(view.buffer)]);
  return tensor_at(view, address);
}

const KernelCall* PlacedKernels::call(std::size_t pass, std::int32_t step) const {
  const std::vector<KernelCall>& calls = rank_.micro_batches.calls[pass].calls;
  const auto found = std::ranges::lower_bound(calls, step, {}, &KernelCall::step);
  return found == calls.end() || found->step != step ? nullptr : &*found;
}

const Kernel& PlacedKernels::kernel(std::size_t pass, const KernelCall& call, std::span<const PlacedScratch> scratch) {
  const ScheduledOp& step = rank_.micro_batches.schedules[pass].ops[index(call.step)];
  const Calls& calls = rank_.micro_batches.calls[pass];
  kernel_.op = step.op;
  kernel_.layer =
      step.layer == kNone ? std::string_view{} : std::string_view(rank_.graph.layers[index(step.layer)].name);
  kernel_.what = step.what;
  fill(reads_, calls.at(call.reads));
  fill(extra_, calls.at(call.extra));
  fill(writes_, calls.at(call.writes));
  kernel_.attributes = calls.attributes_of(call);
  if (multiplies_by_scale(step)) {
    reads_.push_back(scalar_at(scale_));
    kernel_.attributes = {};
  }
  kernel_.reads = reads_;
  kernel_.extra = extra_;
  kernel_.writes = writes_;
  scratch_.clear();
  for (const PlacedScratch& s : scratch) scratch_.push_back({pointer(s.address), s.bytes});
  kernel_.scratch = scratch_;
  kernel_.seed = seed_of(step.what);
  kernel_.tf32 = rank_.run.tf32;
  return kernel_;
}

void PlacedKernels::fill(std::vector<KernelTensor>& to, std::span<const OperandView> views) const {
  to.clear();
  for (const OperandView& v : views) to.push_back(tensor(v));
}

// The loss and its gradient, the only products in backward that the engine makes itself: the plan knows the scale that
// a GradScaler begins with, the run where the present one is.
bool PlacedKernels::multiplies_by_scale(const ScheduledOp& step) const {
  return rank_.run.scales_gradients() && step.phase == Phase::backward && step.op == Operator::mul &&
         step.what != nullptr && std::holds_alternative<Fill>(*step.what);
}

// A checkpoint restores the generator's state: what is run again draws what it drew before.
std::uint64_t PlacedKernels::seed_of(const Primitive* what) const {
  const auto found = forward_.find(what);
  if (found == forward_.end()) return 0;
  return (seed_ << 40) + (passed_ << 32) + found->second;
}

}  // namespace gpuplan
