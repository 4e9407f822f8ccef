#include "estimator/snapshot/snapshot_recorder.h"

#include <algorithm>
#include <utility>

namespace gpuplan {

SnapshotRecorder::SnapshotRecorder(std::string name, SegmentOrder order, std::int64_t capacity_bytes)
    : segments_(capacity_bytes, order) {
  snapshot_.name = std::move(name);
  snapshot_.stack_ends.push_back(0);  // kNoStack
  snapshot_.streams.push_back(0);
  (void)word("");
}

SnapshotRecorder::SnapshotRecorder(const Snapshot& like, std::size_t device, SegmentOrder order)
    : segments_(INT64_MAX, order) {
  snapshot_.name = like.name;
  snapshot_.words = like.words;
  snapshot_.frames = like.frames;
  snapshot_.frames_of_stack = like.frames_of_stack;
  snapshot_.stack_ends = like.stack_ends;
  snapshot_.streams = like.streams;
  for (SnapshotMark mark : like.marks)
    if (mark.device == static_cast<std::int32_t>(device)) {
      mark.device = 0;
      snapshot_.marks.push_back(mark);
    }
}

std::uint16_t SnapshotRecorder::stream(std::uint64_t id) {
  const auto at = std::ranges::find(snapshot_.streams, id);
  const auto number = static_cast<std::uint16_t>(at - snapshot_.streams.begin());
  if (at == snapshot_.streams.end()) snapshot_.streams.push_back(id);
  return number;
}

std::uint32_t SnapshotRecorder::word(std::string_view text) {
  const auto [at, is_new] = words_.try_emplace(std::string(text), static_cast<std::uint32_t>(snapshot_.words.size()));
  if (is_new) snapshot_.words.emplace_back(text);
  return at->second;
}

std::uint32_t SnapshotRecorder::frame(std::string_view file, std::string_view name, std::int32_t line) {
  const SnapshotFrame f{.file = word(file), .name = word(name), .line = line};
  const auto [at, is_new] =
      frames_.try_emplace({f.file, f.name, f.line}, static_cast<std::uint32_t>(snapshot_.frames.size()));
  if (is_new) snapshot_.frames.push_back(f);
  return at->second;
}

std::uint32_t SnapshotRecorder::stack(std::span<const std::uint32_t> frames) {
  snapshot_.frames_of_stack.insert(snapshot_.frames_of_stack.end(), frames.begin(), frames.end());
  snapshot_.stack_ends.push_back(static_cast<std::uint32_t>(snapshot_.frames_of_stack.size()));
  return static_cast<std::uint32_t>(snapshot_.stack_ends.size() - 1);
}

void SnapshotRecorder::allocated(std::uint64_t address, std::int64_t requested_bytes, std::uint32_t stack,
                                 std::uint16_t stream) {
  stacks_[address] = stack;
  requested_[address] = requested_bytes;
  add(SnapshotAction::alloc, address, requested_bytes, stack, stream);
}

bool SnapshotRecorder::is_last(std::uint64_t address) const {
  return !snapshot_.events.empty() && snapshot_.events.back().action == SnapshotAction::alloc &&
         snapshot_.events.back().address == address;
}

void SnapshotRecorder::set_last_stack(std::uint32_t stack) {
  snapshot_.events.back().stack = stacks_[snapshot_.events.back().address] = stack;
}

void SnapshotRecorder::released(std::uint64_t address, std::uint16_t stream) {
  const std::int64_t requested = requested_[address];
  add(SnapshotAction::free_requested, address, requested, kNoStack, stream);
  add(SnapshotAction::free_completed, address, requested, kNoStack, stream);
}

void SnapshotRecorder::mark(std::string_view name, bool begins) {
  snapshot_.marks.push_back(
      {.name = word(name), .device = 0, .begins = begins, .microseconds = clock_ + (begins ? 0 : counts_)});
}

Snapshot SnapshotRecorder::take(const CachingAllocator& allocator, std::string_view alloc_conf) {
  snapshot_.alloc_conf = alloc_conf;
  snapshot_.expandable_segments = allocator.settings().expandable_segments;
  snapshot_.device_ends.push_back(static_cast<std::uint32_t>(snapshot_.events.size()));
  for (const SegmentView& segment : allocator.segments()) add_segment(segment);
  return std::move(snapshot_);
}

std::uint64_t SnapshotRecorder::allocate(std::int64_t bytes) {
  const std::uint64_t address = segments_.allocate(bytes);
  if (address != 0) add(SnapshotAction::segment_alloc, address, bytes, kNoStack, 0);
  return address;
}

void SnapshotRecorder::release(std::uint64_t address, std::int64_t bytes) {
  segments_.release(address, bytes);
  add(SnapshotAction::segment_free, address, bytes, kNoStack, 0);
}

bool SnapshotRecorder::map(std::uint64_t address, std::int64_t bytes) {
  if (!segments_.map(address, bytes)) return false;
  add(SnapshotAction::segment_map, address, bytes, kNoStack, 0);
  return true;
}

void SnapshotRecorder::unmap(std::uint64_t address, std::int64_t bytes) {
  segments_.unmap(address, bytes);
  add(SnapshotAction::segment_unmap, address, bytes, kNoStack, 0);
}

void SnapshotRecorder::add(SnapshotAction action, std::uint64_t address, std::int64_t bytes, std::uint32_t stack,
                           std::uint16_t stream) {
  snapshot_.events.push_back({.address = address,
                              .bytes = bytes,
                              .microseconds = clock_ += counts_,
                              .stack = stack,
                              .stream = stream,
                              .action = action});
}

void SnapshotRecorder::add_segment(const SegmentView& view) {
  SnapshotSegment segment{.address = view.address, .bytes = view.bytes, .expandable = view.expandable};
  segment.first_block = static_cast<std::uint32_t>(snapshot_.blocks.size());
  for (const BlockView& block : view.blocks) {
    const auto stack = stacks_.find(block.address);
    snapshot_.blocks.push_back({.address = block.address,
                                .bytes = block.bytes,
                                .requested_bytes = block.requested_bytes,
                                .stack = block.allocated && stack != stacks_.end() ? stack->second : kNoStack,
                                .allocated = block.allocated});
    segment.allocated_bytes += block.allocated ? block.bytes : 0;
    segment.requested_bytes += block.requested_bytes;
  }
  segment.blocks = static_cast<std::uint32_t>(view.blocks.size());
  snapshot_.segments.push_back(segment);
}

}  // namespace gpuplan
