// A snapshot written while an allocator runs, as PyTorch records one: what plans, replays and learned traces are shown
// by.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "estimator/allocator/allocator.h"
#include "estimator/snapshot/snapshot.h"

namespace gpuplan {

/// Of one device. It is the source of the allocator's segments; who drives the allocator tells it the rest. Time is
/// counted in events, unless it is set.
class SnapshotRecorder final : public SegmentSource {
 public:
  SnapshotRecorder(std::string name, SegmentOrder order, std::int64_t capacity_bytes = INT64_MAX);
  /// With the words, frames, stacks and streams of another snapshot, which keep their numbers, and a device's marks.
  SnapshotRecorder(const Snapshot& like, std::size_t device, SegmentOrder order);

  std::uint32_t word(std::string_view text);
  std::uint32_t frame(std::string_view file, std::string_view name, std::int32_t line);
  /// The innermost frame first; each call makes a new one.
  std::uint32_t stack(std::span<const std::uint32_t> frames);

  /// A stream's number; of 0 it is 0.
  std::uint16_t stream(std::uint64_t id);

  void allocated(std::uint64_t address, std::int64_t requested_bytes, std::uint32_t stack, std::uint16_t stream = 0);
  /// Whether that was the last event, whose stack may be known only now.
  bool is_last(std::uint64_t address) const;
  void set_last_stack(std::uint32_t stack);
  void released(std::uint64_t address, std::uint16_t stream = 0);
  void mark(std::string_view name, bool begins);
  /// From now on time is what set_clock() says.
  void stop_counting() { counts_ = 0; }
  void set_clock(std::int64_t microseconds) { clock_ = microseconds; }

  /// What there is, with the allocator's segments as they are.
  Snapshot take(const CachingAllocator& allocator, std::string_view alloc_conf);

  // --- SegmentSource
  std::uint64_t allocate(std::int64_t bytes) override;
  void release(std::uint64_t address, std::int64_t bytes) override;
  std::uint64_t reserve(std::int64_t bytes) override { return segments_.reserve(bytes); }
  bool map(std::uint64_t address, std::int64_t bytes) override;
  void unmap(std::uint64_t address, std::int64_t bytes) override;

 private:
  void add(SnapshotAction action, std::uint64_t address, std::int64_t bytes, std::uint32_t stack, std::uint16_t stream);
  void add_segment(const SegmentView& view);

  ArithmeticSegments segments_;
  Snapshot snapshot_;
  std::int64_t clock_ = 0, counts_ = 1;  // microseconds; how far an event moves it
  std::unordered_map<std::string, std::uint32_t> words_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::int32_t>, std::uint32_t> frames_;
  std::unordered_map<std::uint64_t, std::int64_t> requested_;  // by address
  std::unordered_map<std::uint64_t, std::uint32_t> stacks_;
};

}  // namespace gpuplan
