#include "estimator/distributed/fsdp1_saving.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

class FlatSaver {
 public:
  explicit FlatSaver(const Strategy& strategy) : strategy_(strategy) {}

  void save_parameter(const FlatParameter& flat) { free(make_whole(flat)); }

  /// NO_SHARD: _full_post_state_dict_hook() has a copy of each parameter on the GPU, until all of them go to the host.
  void copy_parameters(std::span<const FlatParameter> flat) {
    std::vector<std::int32_t> copies;
    const auto copy = [&](const FlatParameter& f) {
      for (const FlatParameter::Within& w : f.parameters) copies.push_back(allocate(w.elements * size_of(f.stored)));
    };
    for (const FlatParameter& f : flat.subspan(1)) copy(f);
    copy(flat.front());  // the root's hook is the last one
    for (const std::int32_t slot : copies) free(slot);
  }

  /// _communicate_optim_state(): a buffer for each state, all of which are there until the host has them.
  void save_states(const FlatParameter& flat, int states) {
    std::vector<std::int32_t> whole;
    for (int i = 0; i < states; ++i) whole.push_back(make_whole(flat));
    for (const std::int32_t slot : whole) free(slot);
  }

  /// _allgather_orig_param_states(): one buffer for all states. What the rank has of each is put together with the
  /// padding between parameters; names keep that until the next state's is there.
  void save_states_of_parameters(const FlatParameter& flat, int states) {
    std::vector<std::int32_t> paddings, before;
    const std::vector<std::int32_t> brought = bring(flat, states);
    const std::int32_t whole = allocate(whole_bytes(flat));
    for (int i = 0; i < states; ++i) {
      for (const std::int32_t slot : std::exchange(paddings, {})) free(slot);
      for (const std::int64_t elements : own_paddings(flat))
        paddings.push_back(allocate(elements * size_of(flat.stored)));
      const std::int32_t shard = allocate(flat.shard_elements * size_of(flat.stored));
      for (const std::int32_t slot : std::exchange(before, {shard})) free(slot);
    }
    for (const std::int32_t slot : paddings) free(slot);
    for (const std::int32_t slot : before) free(slot);
    free(whole);
    for (const std::int32_t slot : brought) free(slot);
  }

  OptimizerProgram take() { return std::move(program_); }

 private:
  // What is on the host comes to the GPU before it is gathered, and goes then.
  std::int32_t make_whole(const FlatParameter& flat) {
    if (!strategy_.offloads) return allocate(whole_bytes(flat));
    const std::int32_t own = allocate(flat.shard_elements * size_of(flat.stored));
    const std::int32_t whole = allocate(whole_bytes(flat));
    free(own);
    return whole;
  }

  // _convert_all_state_info(): the rank's part of each parameter's states, where they are on the host.
  std::vector<std::int32_t> bring(const FlatParameter& flat, int states) {
    std::vector<std::int32_t> brought;
    if (!strategy_.offloads) return brought;
    for (const FlatParameter::Within& w : flat.parameters)
      for (int i = 0; i < states; ++i)
        if (const std::int64_t own = own_elements(flat, w, strategy_.shard()); own > 0)
          brought.push_back(allocate(own * size_of(flat.stored)));
    return brought;
  }

  std::int64_t whole_bytes(const FlatParameter& flat) const {
    return checked_mul(flat.shard_elements * strategy_.shards(), size_of(flat.stored));
  }

  // Of the elements between parameters and behind the last one, what lies in the rank's part.
  std::vector<std::int64_t> own_paddings(const FlatParameter& flat) const {
    std::vector<std::int64_t> paddings;
    const std::int64_t first = strategy_.shard() * flat.shard_elements, last = first + flat.shard_elements;
    const auto add = [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t own = std::min(end, last) - std::max(begin, first);
      if (own > 0) paddings.push_back(own);
    };
    std::int64_t at = 0;
    for (const FlatParameter::Within& w : flat.parameters) {
      add(at, w.begin);
      at = w.begin + w.elements;
    }
    add(at, flat.shard_elements * strategy_.shards());
    return paddings;
  }

  std::int32_t allocate(std::int64_t bytes) {
    program_.events.push_back({OptimizerEvent::Kind::alloc_tensor, slots_, bytes});
    return slots_++;
  }
  void free(std::int32_t slot) { program_.events.push_back({OptimizerEvent::Kind::free, slot, 0}); }

  const Strategy& strategy_;
  OptimizerProgram program_;
  std::int32_t slots_ = 0;
};

}  // namespace

OptimizerProgram flat_saving(std::span<const FlatParameter> flat, int states, const Strategy& strategy) {
  FlatSaver saver(strategy);
  if (strategy.shards() == 1) {
    saver.copy_parameters(flat);
    return saver.take();
  }
  for (const FlatParameter& f : flat)
    if (!f.parameters.empty()) saver.save_parameter(f);
  if (states == 0) return saver.take();
  for (const FlatParameter& f : flat) {
    if (f.parameters.empty()) continue;
    if (strategy.flat->original_parameters)
      saver.save_states_of_parameters(f, states);
    else
      saver.save_states(f, states);
  }
  return saver.take();
}

}  // namespace gpuplan
