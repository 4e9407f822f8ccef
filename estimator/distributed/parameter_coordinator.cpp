#include "estimator/distributed/parameter_coordinator.h"

#include <algorithm>
#include <utility>

#include "estimator/base/integers.h"
#include "estimator/distributed/partitioned_construction.h"

namespace gpuplan {
namespace {

constexpr std::int32_t kParameterStream = 1;
constexpr std::int32_t kNever = INT32_MIN;

}  // namespace

ParameterCoordinator::ParameterCoordinator(const Graph& graph, const ModuleCalls& calls, const Strategy& strategy,
                                           CollectiveWriter& writer)
    : calls_(calls),
      settings_(strategy.partition),
      ranks_(strategy.ranks()),
      gather_stream_(strategy.overlaps_reductions ? kParameterStream : 0),
      from_host_(strategy.offloads_parameters),
      writer_(writer) {
  for (const ParameterTensor& p : graph.parameters) {
    const Tensor& t = graph.tensor(p.tensor);
    Parameter own;
    own.elements = t.shape.elements();
    own.size = size_of(t.dtype);
    own.padded = checked_mul(partition_elements(t.shape, ranks_), ranks_);
    (void)checked_mul(own.padded, own.size);  // no gather is too large for its bytes
    own.stays = own.elements <= settings_.persistence_elements;
    own.slot = writer.new_slot();
    own.is_trained = p.trainable;
    parameters_.push_back(std::move(own));
  }
}

// reset_step(), before the model's forward.
void ParameterCoordinator::begin_forward() {
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].status == Status::coming) {
      wait_for(static_cast<std::int32_t>(i));
      let_go(static_cast<std::int32_t>(i));
    }
  if (!order_.empty() && !knows_order_) {
    knows_order_ = true;
    for (std::size_t step = 0; step < order_.size(); ++step)
      for (const std::int32_t p : calls_.modules[index(order_[step])].parameters)
        uses_.push_back({p, static_cast<std::int32_t>(step)});
  }
  queue_.assign(uses_.begin(), uses_.end());
  for (Parameter& p : parameters_) p.last_fetched_for = kNever;
  step_ = 0;
  whole_elements_ = 0;
}

void ParameterCoordinator::follow(const ModuleCall& call) {
  switch (call.kind) {
    case ModuleCall::Kind::enter: return fetch(call.module, call.phase == Phase::backward);
    case ModuleCall::Kind::leave: return release(call.module);
    case ModuleCall::Kind::before_backward: begun_.push_back(call.module); return fetch(call.module, false);
    case ModuleCall::Kind::after_backward: release(call.module); return release_borrowed(call.module);
  }
}

// fetch_sub_module()
void ParameterCoordinator::fetch(std::int32_t module, bool again) {
  if (!knows_order_) order_.push_back(module);
  const std::vector<std::int32_t>& own = calls_.modules[index(module)].parameters;
  gather(own);
  // In the order of a Python set: the one that takes the most is that all is copied out before a buffer goes.
  for (const std::int32_t p : own)
    if (parameters_[index(p)].status == Status::coming) copy_out(gathers_[index(parameters_[index(p)].gather)]);
  for (const std::int32_t p : own) {
    parameters_[index(p)].used_by.insert(module);
    if (again && !parameters_[index(p)].is_trained && !begun_.empty()) {  // update_recompute_parameters()
      parameters_[index(p)].used_by.insert(begun_.back());
      borrowed_[begun_.back()].insert(p);
    }
    if (parameters_[index(p)].status == Status::coming) wait_for(p);
  }
  if (knows_order_) {
    take_own_from_queue(own);
    prefetch();
  }
  ++step_;
}

void ParameterCoordinator::take_own_from_queue(const std::vector<std::int32_t>& own) {
  std::size_t expected = 0;
  for (const std::int32_t p : own)
    if (parameters_[index(p)].last_fetched_for < step_) ++expected;
  std::set<std::int32_t> taken;
  while (!queue_.empty() && taken.size() < expected) {
    const Use use = queue_.front();
    queue_.pop_front();
    parameters_[index(use.parameter)].last_fetched_for = use.step;
    taken.insert(use.parameter);
  }
}

void ParameterCoordinator::prefetch() {
  const std::int64_t most = std::min(settings_.live_elements - whole_elements_, settings_.prefetch_elements);
  std::vector<std::int32_t> ahead;
  std::int64_t elements = 0;
  while (!queue_.empty() && elements < most) {
    const Use use = queue_.front();
    queue_.pop_front();
    Parameter& p = parameters_[index(use.parameter)];
    p.last_fetched_for = std::max(p.last_fetched_for, use.step);
    if (p.status != Status::away || std::ranges::find(ahead, use.parameter) != ahead.end()) continue;
    ahead.push_back(use.parameter);
    elements += p.elements;
  }
  gather(std::move(ahead));
}

// all_gather_coalesced(): one parameter lies in what it is gathered in, several are copied out of it when the first of
// them is waited for.
void ParameterCoordinator::gather(std::vector<std::int32_t> parameters) {
  std::erase_if(parameters, [&](std::int32_t p) { return parameters_[index(p)].status != Status::away; });
  if (parameters.empty()) return;
  std::ranges::sort(parameters);
  std::int64_t bytes = 0;
  for (const std::int32_t p : parameters) {
    Parameter& own = parameters_[index(p)];
    own.status = Status::coming;
    own.gather = static_cast<std::int32_t>(gathers_.size());
    own.on_stream = gather_stream_ != 0;
    whole_elements_ += own.elements;
    bytes += own.padded * own.size;
  }
  Gather all;
  if (ranks_ == 1) {
    all.copied_out = true;
    for (const std::int32_t p : parameters) take_partition(parameters_[index(p)], gather_stream_);
    all.parameters = std::move(parameters);
    gathers_.push_back(std::move(all));
    return;
  }
  if (parameters.size() == 1) {
    writer_.allocate(parameters_[index(parameters.front())].slot, bytes, Category::parameters, gather_stream_);
  } else {
    all.buffer = take_slot();
    writer_.allocate(all.buffer, bytes, Category::parameters, gather_stream_);
  }
  bring(parameters, gather_stream_);
  if (parameters.size() == 1)
    all.brought = std::exchange(brought_, {});  // the collective has it until it is waited for
  else
    let_go_of(brought_);
  all.parameters = std::move(parameters);
  gathers_.push_back(std::move(all));
}

// NoGatherHandle, of one rank alone: its partition is the parameter, where it lies or as it comes from the host.
void ParameterCoordinator::take_partition(const Parameter& p, std::int32_t stream) {
  if (from_host_) writer_.allocate(p.slot, p.elements * p.size, Category::parameters, stream);
}

// ds_tensor.to(device): partitions are there while they are gathered, and the list of them lets go of the last one
// first.
void ParameterCoordinator::bring(const std::vector<std::int32_t>& parameters, std::int32_t stream) {
  if (!from_host_) return;
  for (const std::int32_t p : parameters) {
    const Parameter& own = parameters_[index(p)];
    brought_.push_back(take_slot());
    writer_.allocate(brought_.back(), own.padded / ranks_ * own.size, Category::parameters, stream);
  }
}
void ParameterCoordinator::let_go_of(std::vector<std::int32_t>& brought) {
  for (; !brought.empty(); brought.pop_back()) {
    writer_.free(brought.back());
    free_slots_.push_back(brought.back());
  }
}

// AllGatherCoalescedHandle.wait()
void ParameterCoordinator::copy_out(Gather& all) {
  let_go_of(all.brought);
  if (std::exchange(all.copied_out, true) || all.buffer == kNone) return;
  for (const std::int32_t p : all.parameters) {
    const Parameter& own = parameters_[index(p)];
    writer_.allocate(own.slot, own.elements * own.size, Category::parameters, gather_stream_);
  }
}

// The buffer of a gather goes when all of its parameters have been waited for.
void ParameterCoordinator::wait_for(std::int32_t parameter) {
  Gather& all = gathers_[index(parameters_[index(parameter)].gather)];
  copy_out(all);
  parameters_[index(parameter)].status = Status::there;
  if (++all.waited_for < all.parameters.size() || all.buffer == kNone) return;
  writer_.free(all.buffer);
  free_slots_.push_back(all.buffer);
}

// release_sub_module()
void ParameterCoordinator::release(std::int32_t module) {
  const std::vector<std::int32_t>& own = calls_.modules[index(module)].parameters;
  const std::set<std::int32_t> goes = knows_order_ ? goes_after(own) : std::set<std::int32_t>(own.begin(), own.end());
  for (const std::int32_t p : own) {
    parameters_[index(p)].used_by.erase(module);
    if (goes.contains(p)) let_go(p);
  }
}

// Of a module whose backward has ended.
void ParameterCoordinator::release_borrowed(std::int32_t module) {
  for (const std::int32_t p : borrowed_[module]) {
    parameters_[index(p)].used_by.erase(module);
    if (!parameters_[index(p)].stays) let_go(p);
  }
  borrowed_.erase(module);
  std::erase(begun_, module);
}

std::set<std::int32_t> ParameterCoordinator::goes_after(const std::vector<std::int32_t>& own) const {
  std::set<std::int32_t> goes;
  for (const std::int32_t p : own)
    if (!parameters_[index(p)].stays && parameters_[index(p)].last_fetched_for <= step_) goes.insert(p);
  std::int64_t passed = 0;
  for (std::size_t s = index(step_); s < order_.size() && !goes.empty() && passed < settings_.reuse_elements; ++s)
    for (const std::int32_t p : calls_.modules[index(order_[s])].parameters) {
      goes.erase(p);
      passed += parameters_[index(p)].elements;
    }
  return goes;
}

std::int32_t ParameterCoordinator::take_slot() {
  if (free_slots_.empty()) return writer_.new_slot();
  const std::int32_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void ParameterCoordinator::end_view(std::int32_t parameter) {
  Parameter& p = parameters_[index(parameter)];
  p.is_viewed = false;
  for (const std::int32_t slot : p.viewed) {
    writer_.free_later(slot);
    free_slots_.push_back(slot);
  }
  p.viewed.clear();
}

// free_param(): what was gathered on another stream waits for an event.
void ParameterCoordinator::let_go(std::int32_t parameter) {
  Parameter& p = parameters_[index(parameter)];
  if (p.status != Status::there || !p.used_by.empty()) return;
  if (p.is_viewed)
    p.viewed.push_back(std::exchange(p.slot, take_slot()));
  else if (p.on_stream)
    writer_.free_later(p.slot);
  else
    writer_.free(p.slot);
  p.status = Status::away;
  whole_elements_ -= p.elements;
}

// release_backward_leftovers(), the last one first.
void ParameterCoordinator::end_backward() {
  for (std::size_t i = calls_.without_after.size(); i-- > 0;) {
    const std::int32_t module = calls_.without_after[i];
    for (const std::int32_t p : calls_.modules[index(module)].parameters) {
      parameters_[index(p)].used_by.erase(module);
      if (!parameters_[index(p)].stays) let_go(p);
    }
  }
  while (!begun_.empty()) release_borrowed(begun_.back());
}

void ParameterCoordinator::release_all() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto p = static_cast<std::int32_t>(i);
    if (parameters_[i].status == Status::coming) wait_for(p);
    parameters_[i].used_by.clear();
    let_go(p);
  }
}

// Init's all_gather(), on the current stream.
void ParameterCoordinator::gather_at_once(const std::vector<std::int32_t>& parameters) {
  const bool gathers = ranks_ > 1 || parameters.size() == 1;
  if (gathers) bring(parameters, 0);
  for (const std::int32_t number : parameters) {
    Parameter& p = parameters_[index(number)];
    if (gathers)
      writer_.allocate(p.slot, p.padded * p.size, Category::parameters);
    else
      take_partition(p, 0);
    p.status = Status::there;
    p.on_stream = false;
  }
  let_go_of(brought_);
}

// DeepSpeedZeroOptimizer_Stage3._post_step()
void ParameterCoordinator::gather_persistent() {
  std::vector<std::int32_t> persistent;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].stays) persistent.push_back(static_cast<std::int32_t>(i));
  gather_at_once(persistent);
}

void ParameterCoordinator::gather_each_module() {
  for (const auto& module : calls_.modules) {
    gather_at_once(module.parameters);
    for (const std::int32_t p : module.parameters) {
      whole_elements_ += parameters_[index(p)].elements;  // which letting go takes off, and GatheredParameters does not
      let_go(p);
    }
  }
}

}  // namespace gpuplan
