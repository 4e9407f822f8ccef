// What happens to a device's memory and what runs on it, in order: as a plan says, and as a device is told.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "estimator/allocator/allocator.h"
#include "validate/executor/execution.h"

namespace gpuplan {

/// A byte of device memory: its segment, numbered from 0 in the order in which they come, and how far it is from that
/// one's beginning. Segment -1: in none that is there.
struct Place {
  std::int32_t segment = -1;
  std::int64_t offset = 0;
  bool operator==(const Place&) const = default;
};

struct Event {
  enum class Kind : std::uint8_t { segment, segment_freed, range, mapped, unmapped, block, block_freed, kernel };
  Kind kind = Kind::kernel;
  std::string what;  // "aten::mm of fc", "update 1", "clip"; of a segment that there was no room for "refused"
  Place at;
  std::int64_t bytes = 0;
  std::vector<Place> operands;  // of a kernel: what it reads, what is extra, what it writes
  bool operator==(const Event&) const = default;
};
std::string text(const Event& event);

struct Extent {
  std::uint64_t address = 0;
  std::int64_t bytes = 0;
  bool holds(std::uint64_t other, std::int64_t other_bytes) const {
    return other >= address &&
           other + static_cast<std::uint64_t>(other_bytes) <= address + static_cast<std::uint64_t>(bytes);
  }
};

/// The events, and the segments of a device or of a plan with their addresses.
class EventLog {
 public:
  std::vector<Event> events;
  std::vector<Extent> segments_ever;  // by number
  std::int64_t mapped_bytes = 0;      // of segments and of pages that are there

  void segment_came(std::uint64_t address, std::int64_t bytes);
  void segment_left(std::uint64_t address, std::int64_t bytes);
  void range_came(std::uint64_t address, std::int64_t bytes);
  void pages(std::uint64_t address, std::int64_t bytes, bool came);
  void block(std::uint64_t address, std::int64_t bytes, bool came);
  void kernel(std::string what, const std::vector<std::uint64_t>& operands);
  Place place(std::uint64_t address) const;

 private:
  void add_segment(std::uint64_t address, std::int64_t bytes, Event::Kind kind);
  std::map<std::uint64_t, std::int32_t> there_;  // number by address
};

/// What the plan says: the same training loop under the same allocator, over addresses that are only arithmetic.
EventLog planned_events(const RankStep& rank, std::int64_t capacity_bytes, int steps);

}  // namespace gpuplan
