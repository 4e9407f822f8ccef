#include "estimator/snapshot/snapshot_trace.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "estimator/allocator/replay.h"
#include "estimator/base/error.h"

namespace gpuplan {
namespace {

// Numbers segments as a trace does: a new address, a new number.
class Places {
 public:
  void add(std::uint64_t address) { numbers_.emplace(address, static_cast<std::int32_t>(numbers_.size())); }
  TracePlace at(std::uint64_t address) const {
    const auto after = numbers_.upper_bound(address);
    if (after == numbers_.begin()) return {};
    const auto base = std::prev(after);
    return {base->second, static_cast<std::int64_t>(address - base->first)};
  }

 private:
  std::map<std::uint64_t, std::int32_t> numbers_;
};

class Tracer {
 public:
  Tracer(const Snapshot& snapshot, std::size_t device, std::size_t events)
      : history_(follow(snapshot, device)), events_(snapshot.events_of(device).first(events)) {
    trace_.name = snapshot.name;
  }

  Trace trace() {
    for (std::uint32_t number = 0; number < history_.tensors.size(); ++number)
      if (const SnapshotTensor& t = history_.tensors[number]; t.made == kBeforeHistory) {
        add({.action = TraceAction::alloc,
             .place = {},
             .bytes = std::max<std::int64_t>(t.requested_bytes, 1),
             .tensor = number});
        if (t.freed != kNotFreed) freed_.emplace(t.freed, number);
      }
    trace_.tensor_count = static_cast<std::uint32_t>(history_.tensors.size());
    std::uint32_t next = 0;  // tensors that the events make, in their order
    while (next < history_.tensors.size() && history_.tensors[next].made == kBeforeHistory) ++next;
    for (std::uint32_t i = 0; i < events_.size(); ++i) {
      const SnapshotEvent& e = events_[i];
      if (e.action > SnapshotAction::segment_unmap) continue;
      if (e.action == SnapshotAction::segment_alloc || e.action == SnapshotAction::segment_map) places_.add(e.address);
      TraceEvent event{.action = action_of(e.action), .place = places_.at(e.address), .bytes = e.bytes};
      event.line = static_cast<std::int32_t>(i) + 1;
      event.stream = e.stream;
      if (e.action == SnapshotAction::alloc)
        alive_[e.address] = event.tensor = next++;
      else if (e.action == SnapshotAction::free_requested || e.action == SnapshotAction::free_completed) {
        const std::optional<std::uint32_t> tensor = freed_by(i, e);
        if (!tensor) continue;
        event.tensor = *tensor;
      }
      add(event);
    }
    return std::move(trace_);
  }

 private:
  static TraceAction action_of(SnapshotAction action) { return static_cast<TraceAction>(action); }  // of one order

  std::optional<std::uint32_t> freed_by(std::uint32_t i, const SnapshotEvent& e) {
    if (const auto at = alive_.find(e.address); at != alive_.end()) {
      const std::uint32_t tensor = at->second;
      if (e.action == SnapshotAction::free_completed) alive_.erase(at);
      return tensor;
    }
    // What was there before: its free is told by its request, or its end alone.
    if (const auto at = freed_.find(i); at != freed_.end()) {
      if (e.action == SnapshotAction::free_requested) alive_[e.address] = at->second;
      return at->second;
    }
    return std::nullopt;
  }

  void add(const TraceEvent& event) {
    if (trace_.events.size() == kMaxTraceEvents) throw Error(trace_.name + ": more than 16,000,000 events of a device");
    trace_.events.push_back(event);
  }

  SnapshotHistory history_;
  std::span<const SnapshotEvent> events_;
  std::unordered_map<std::uint64_t, std::uint32_t> alive_;  // tensors by address
  std::unordered_map<std::uint32_t, std::uint32_t> freed_;  // what was there before, by the event that frees it
  Places places_;
  Trace trace_;
};

}  // namespace

Trace trace_of(const Snapshot& snapshot, std::size_t device) {
  return Tracer(snapshot, device, snapshot.events_of(device).size()).trace();
}

ReplayWithin replay_until(const Snapshot& snapshot, std::size_t device, const SnapshotOutOfMemory& failure,
                          const AllocatorSettings& settings, std::int64_t bytes) {
  Trace trace = Tracer(snapshot, device, failure.event).trace();
  trace.events.push_back(
      {.action = TraceAction::alloc, .place = {}, .bytes = failure.asked_bytes, .tensor = trace.tensor_count++});
  AllocatorSettings limited = settings;
  limited.memory_limit_bytes = bytes;
  const ReplayReport report = replay(trace, limited, false);
  if (!report.out_of_memory) return {.runs = true};
  const OutOfMemory& oom = *report.out_of_memory;
  return {.runs = false, .short_bytes = oom.tried_bytes - (bytes - oom.reserved_bytes)};
}

}  // namespace gpuplan
