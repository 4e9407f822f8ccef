// A recorded history of PyTorch's allocator, as torch.cuda.memory._record_memory_history() gives it: one
// event a line, tab-separated,
//
//     # comment
//     = forward                          a phase begins
//     segment_alloc  3+0       20971520  a segment from the driver; segment_map with expandable segments
//     alloc          3+0       4096000   bytes as asked for, and where they landed: segment+offset
//     free_requested 3+0       4096000   the tensor died
//     free_completed 3+0       4096000   the block is in its pool again
//     segment_free   3+0       20971520  and segment_unmap
//
// Segments are numbered from 0 as they come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuplan {

enum class TraceAction : std::uint8_t {
  alloc,
  free_requested,
  free_completed,
  segment_alloc,
  segment_free,
  segment_map,
  segment_unmap,
};

/// Where something landed.
struct TracePlace {
  std::int32_t segment = 0;
  std::int64_t offset = 0;  // bytes
  bool operator==(const TracePlace&) const = default;
};

struct TraceEvent {
  TraceAction action = TraceAction::alloc;
  std::uint16_t stream = 0;
  TracePlace place;
  std::int64_t bytes = 0;
  std::uint32_t tensor = 0;  // allocations are numbered from 0; a free has the number of what it frees
  std::int32_t line = 0;
};

/// A phase begins before events[event].
struct TracePhase {
  std::string name;
  std::size_t event = 0;
};

struct Trace {
  std::string name;
  std::vector<TraceEvent> events;
  std::vector<TracePhase> phases;
  std::uint32_t tensor_count = 0;
};

/// The most events a trace may have: at 32 bytes each, what bounds the memory a hostile file can take.
constexpr std::size_t kMaxTraceEvents = 16'000'000;

/// The most bytes of one, packed or not; each of its events has less than 64.
constexpr std::size_t kMaxHistoryBytes = std::size_t{1} << 30;

/// Up to `most` bytes to `to`, and none at the end only.
using ReadBytes = std::function<std::size_t(char* to, std::size_t most)>;

/// Reads a .tsv, gzip-compressed or not; `name` is for messages. Throws Error when the gzip stream is damaged or cut
/// short, or it has more than kMaxHistoryBytes, and with file:line:column for a line that is not as above, a free of
/// what is not allocated, or an allocation where something already is.
Trace read_trace(const std::string& name, const ReadBytes& read);

/// Whether a line begins as an event does: with an action and a tab.
bool is_trace_event(std::string_view line);

/// "segment_map" and so on.
const char* name_of(TraceAction action);

}  // namespace gpuplan
