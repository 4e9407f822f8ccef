// Writes CollectiveMemory: events one after another, points around them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "estimator/distributed/collective_memory.h"

namespace gpuplan {

class CollectiveWriter {
 public:
  std::int32_t new_slot() { return memory_.slots++; }

  void allocate(std::int32_t slot, std::int64_t bytes, Category category, std::int32_t stream = 0) {
    memory_.events.push_back({CollectiveEvent::Kind::allocate, slot, bytes, category, stream});
  }
  void free(std::int32_t slot) { event(CollectiveEvent::Kind::free, slot); }
  void free_later(std::int32_t slot) { event(CollectiveEvent::Kind::free_later, slot); }
  void free_buffer(BufferId buffer) { event(CollectiveEvent::Kind::free_buffer, buffer); }
  void free_buffer_later(BufferId buffer) { event(CollectiveEvent::Kind::free_buffer_later, buffer); }
  void empty_cache() { event(CollectiveEvent::Kind::empty_cache, 0); }

  /// What `write` writes, where the slot's block is not there.
  template <class Write>
  void unless_there(std::int32_t slot, Write write) {
    const std::size_t at = memory_.events.size();
    event(CollectiveEvent::Kind::skip_if_there, slot);
    write();
    memory_.events[at].bytes = static_cast<std::int64_t>(memory_.events.size() - at) - 1;
  }

  /// Whose points at() writes from here on; those of the first micro-batch of the first round until then.
  void of_micro_batch(MicroBatch kind, std::size_t round = 0) {
    kind_ = kind;
    round_ = round;
    if (memory_.rounds.size() <= round) memory_.rounds.resize(round + 1);
  }

  /// The events of `write` as a range of their own.
  template <class Write>
  Range written(Write write) {
    const std::size_t begin = memory_.events.size();
    write();
    return memory_.since(begin);
  }
  template <class Write>
  void at(Phase phase, std::int32_t step, Write write) {
    const Range events = written(write);
    if (events.begin != events.end)
      memory_.rounds[round_][static_cast<std::size_t>(kind_)].push_back({phase, step, events});
  }

  CollectiveMemory& memory() { return memory_; }
  /// Points of one place stay in the order they were written.
  CollectiveMemory finish() {
    for (MicroBatchPoints& round : memory_.rounds)
      for (std::vector<CollectivePoint>& points : round)
        std::ranges::stable_sort(points, [](const CollectivePoint& a, const CollectivePoint& b) {
          return a.phase != b.phase ? a.phase < b.phase : a.step < b.step;
        });
    return std::move(memory_);
  }

 private:
  void event(CollectiveEvent::Kind kind, std::int32_t slot) { memory_.events.push_back({kind, slot, 0, {}, 0}); }

  CollectiveMemory memory_;
  std::size_t round_ = 0;
  MicroBatch kind_ = MicroBatch::first;
};

}  // namespace gpuplan
