// What torch.cuda.memory._dump_snapshot() writes: the history of PyTorch's caching allocators, and what they hold at
// its end (torch/csrc/cuda/memory_snapshot.cpp, c10/cuda/CUDACachingAllocator.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpuplan {

enum class SnapshotAction : std::uint8_t {
  alloc,
  free_requested,
  free_completed,
  segment_alloc,
  segment_free,
  segment_map,
  segment_unmap,
  snapshot,
  oom,
  other,  // of a release that is not known here
};

/// PyTorch's words for them, in their order; of `other` none.
inline constexpr std::array<std::string_view, 9> kSnapshotActions = {
    "alloc",         "free_requested", "free_completed",
    "segment_alloc", "segment_free",   "segment_map",
    "segment_unmap", "snapshot",       "oom"};

struct SnapshotFrame {
  std::uint32_t file = 0, name = 0;  // of Snapshot::words
  std::int32_t line = 0;
  bool operator==(const SnapshotFrame&) const = default;
};

constexpr std::uint32_t kNoStack = 0;  // the empty one

/// 32 bytes: a file of 1 GB has ten millions of them.
struct SnapshotEvent {
  std::uint64_t address = 0;  // of an oom: the bytes that the device had free
  std::int64_t bytes = 0;     // as asked for; of a segment: all of it
  std::int64_t microseconds = 0;
  std::uint32_t stack = kNoStack;  // of Snapshot::stacks
  std::uint16_t stream = 0;        // of Snapshot::streams
  SnapshotAction action = SnapshotAction::other;
};

struct SnapshotBlock {
  std::uint64_t address = 0;
  std::int64_t bytes = 0, requested_bytes = 0;
  std::uint32_t stack = kNoStack;
  bool allocated = false;  // not where it waits for another stream's event
};

struct SnapshotSegment {
  std::uint64_t address = 0;
  std::int64_t bytes = 0, allocated_bytes = 0, requested_bytes = 0;
  std::int32_t device = 0;
  bool expandable = false, private_pool = false;
  std::uint32_t first_block = 0, blocks = 0;  // of Snapshot::blocks
};

/// What a profiler's range or an optimizer's step marks.
struct SnapshotMark {
  std::uint32_t name = 0;  // of Snapshot::words
  std::int32_t device = 0;
  bool begins = false;
  std::int64_t microseconds = 0;
};

struct Snapshot {
  std::string name;
  std::vector<std::string> words;
  std::vector<SnapshotFrame> frames;           // each once
  std::vector<std::uint32_t> frames_of_stack;  // the innermost first
  std::vector<std::uint32_t> stack_ends;       // stack i ends there, and begins where i - 1 ends
  std::vector<std::uint64_t> streams;
  std::vector<SnapshotEvent> events;
  std::vector<std::uint32_t> device_ends;  // the events of device i, likewise
  std::vector<SnapshotBlock> blocks;
  std::vector<SnapshotSegment> segments;
  std::vector<SnapshotMark> marks;
  std::string alloc_conf;  // PYTORCH_CUDA_ALLOC_CONF
  bool expandable_segments = false;

  std::size_t devices() const { return device_ends.size(); }
  std::span<const SnapshotEvent> events_of(std::size_t device) const {
    const std::uint32_t begin = device == 0 ? 0 : device_ends[device - 1];
    return std::span(events).subspan(begin, device_ends[device] - begin);
  }
  std::span<const std::uint32_t> stack(std::uint32_t number) const {
    const std::uint32_t begin = number == 0 ? 0 : stack_ends[number - 1];
    return std::span(frames_of_stack).subspan(begin, stack_ends[number] - begin);
  }
  std::span<const SnapshotBlock> blocks_of(const SnapshotSegment& segment) const {
    return std::span(blocks).subspan(segment.first_block, segment.blocks);
  }
};

/// Up to `most` bytes to `to`, and none at the end only.
using ReadSnapshotBytes = std::function<std::size_t(char* to, std::size_t most)>;

/// Reads a snapshot's pickle. Nothing in a file is executed: it may make the numbers, words, lists and dictionaries
/// that a snapshot has, and whatever else a pickle asks for is refused. Memory is a small multiple of the file's bytes.
/// Throws Error, with the byte at which the file is wrong, cut short or something else than a snapshot.
Snapshot read_snapshot(const std::string& name, const ReadSnapshotBytes& read);

/// Whether a file begins as a pickle of Python 3's protocols does.
bool is_pickle_text(std::string_view start);

}  // namespace gpuplan
