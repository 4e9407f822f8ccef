#include "estimator/allocator/replay.h"

#include <algorithm>
#include <map>
#include <vector>

namespace gpuplan {
namespace {

std::string text_of(TraceAction action, TracePlace place, std::int64_t bytes) {
  return std::string(name_of(action)) + " " + std::to_string(place.segment) + "+" + std::to_string(place.offset) + " " +
         std::to_string(bytes);
}

// Numbers segments as the recording does - a new address, a new number - and keeps what happened since
// the last allocation.
class NumberedSegments final : public SegmentSource {
 public:
  struct Event {
    TraceAction action;
    TracePlace place;
    std::int64_t bytes;
  };

  std::uint64_t allocate(std::int64_t bytes) override {
    const std::uint64_t address = source_.allocate(bytes);
    note(TraceAction::segment_alloc, address, bytes);
    return address;
  }
  void release(std::uint64_t address, std::int64_t bytes) override {
    source_.release(address, bytes);
    note(TraceAction::segment_free, address, bytes);
  }
  std::uint64_t reserve(std::int64_t bytes) override { return source_.reserve(bytes); }
  bool map(std::uint64_t address, std::int64_t bytes) override {
    note(TraceAction::segment_map, address, bytes);
    return source_.map(address, bytes);
  }
  void unmap(std::uint64_t address, std::int64_t bytes) override {
    source_.unmap(address, bytes);
    note(TraceAction::segment_unmap, address, bytes);
  }

  TracePlace place_of(std::uint64_t address) const {
    const auto base = std::prev(numbers_.upper_bound(address));
    return {base->second, static_cast<std::int64_t>(address - base->first)};
  }
  std::vector<Event>& events() { return events_; }

 private:
  void note(TraceAction action, std::uint64_t address, std::int64_t bytes) {
    if (action == TraceAction::segment_alloc || action == TraceAction::segment_map)
      numbers_.emplace(address, static_cast<std::int32_t>(numbers_.size()));
    events_.push_back({action, place_of(address), bytes});
  }

  ArithmeticSegments source_;
  std::map<std::uint64_t, std::int32_t> numbers_;  // by first address
  std::vector<Event> events_;
};

bool is_segment_event(TraceAction action) {
  return action != TraceAction::alloc && action != TraceAction::free_requested && action != TraceAction::free_completed;
}

class Checker {
 public:
  Checker(const Trace& trace, NumberedSegments& source) : trace_(trace), source_(source) {}

  // Compares the segment events that led to events[at], an allocation, and then where it landed.
  std::optional<ReplayDifference> check(std::size_t at, std::uint64_t address) {
    auto& actual = source_.events();
    std::size_t seen = 0;
    for (; recorded_ < at; ++recorded_) {
      const TraceEvent& e = trace_.events[recorded_];
      if (!is_segment_event(e.action)) continue;
      const std::string expected = text_of(e.action, e.place, e.bytes);
      if (seen == actual.size()) return ReplayDifference{recorded_, expected, "nothing"};
      const auto& a = actual[seen++];
      if (const std::string got = text_of(a.action, a.place, a.bytes); got != expected)
        return ReplayDifference{recorded_, expected, got};
    }
    const TraceEvent& e = trace_.events[at];
    const std::string expected = text_of(e.action, e.place, e.bytes);
    if (seen < actual.size())
      return ReplayDifference{at, expected, text_of(actual[seen].action, actual[seen].place, actual[seen].bytes)};
    actual.clear();
    if (const TracePlace place = source_.place_of(address); place != e.place)
      return ReplayDifference{at, expected, text_of(e.action, place, e.bytes)};
    return {};
  }

 private:
  const Trace& trace_;
  NumberedSegments& source_;
  std::size_t recorded_ = 0;  // events before this one are compared
};

template <class OnAllocation>
void run(const Trace& trace, CachingAllocator& allocator, ReplayReport& report, OnAllocation on_allocation) {
  std::vector<BlockId> blocks(trace.tensor_count, kNoBlock);
  std::int64_t peak = 0;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const TraceEvent& e = trace.events[i];
    if (e.action == TraceAction::free_completed) {
      allocator.release(blocks[e.tensor]);
    } else if (e.action == TraceAction::alloc) {
      const BlockId block = allocator.allocate(e.bytes, e.stream);
      if (block == kOutOfMemory) {
        report.out_of_memory = allocator.out_of_memory();
        return;
      }
      blocks[e.tensor] = block;
      ++report.allocations;
      if (allocator.allocated_bytes() > peak) {
        peak = allocator.allocated_bytes();
        report.fragmentation_bytes = allocator.reserved_bytes() - peak;
      }
      if (!on_allocation(i, block)) return;
    }
  }
}

}  // namespace

ReplayReport replay(const Trace& trace, const AllocatorSettings& settings, bool check) {
  ReplayReport report;
  ArithmeticSegments plain;
  NumberedSegments numbered;
  CachingAllocator allocator(check ? static_cast<SegmentSource&>(numbered) : plain, settings);
  if (check) {
    Checker checker(trace, numbered);
    run(trace, allocator, report, [&](std::size_t event, BlockId block) {
      report.difference = checker.check(event, allocator.address(block));
      return !report.difference;
    });
  } else {
    run(trace, allocator, report, [](std::size_t, BlockId) { return true; });
  }
  report.peak_allocated_bytes = allocator.peak_allocated_bytes();
  report.peak_requested_bytes = allocator.peak_requested_bytes();
  report.peak_reserved_bytes = allocator.peak_reserved_bytes();
  report.segments = allocator.segment_count();
  report.peak_inactive_split_bytes = allocator.peak_inactive_split_bytes();
  report.inactive_split_bytes = allocator.inactive_split_bytes();
  report.largest_free_bytes = allocator.largest_free_bytes();
  report.allocated_bytes = allocator.allocated_bytes();
  report.requested_bytes = allocator.requested_bytes();
  report.reserved_bytes = allocator.reserved_bytes();
  return report;
}

}  // namespace gpuplan
