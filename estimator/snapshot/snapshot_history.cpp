#include "estimator/snapshot/snapshot_history.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "estimator/allocator/allocator.h"
#include "estimator/base/error.h"
#include "estimator/base/format.h"
#include "estimator/snapshot/followed_blocks.h"

namespace gpuplan {
namespace {

// Errors of memory at which free blocks are looked through: a loop that tries again has thousands.
constexpr std::size_t kLookedAt = 64;

// Those of another release may be unknown here; whether the sizes are right is told by the end.
AllocatorSettings settings_of(const Snapshot& snapshot) {
  AllocatorSettings settings;
  try {
    settings = parse_alloc_conf(snapshot.alloc_conf);
  } catch (const Error&) {
    settings = {};
  }
  settings.expandable_segments = snapshot.expandable_segments;
  return settings;
}

class Follower {
 public:
  Follower(const Snapshot& snapshot, std::size_t device)
      : snapshot_(snapshot), device_(device), events_(snapshot.events_of(device)), blocks_(settings_of(snapshot)) {}

  SnapshotHistory follow() {
    for (const SnapshotSegment& segment : snapshot_.segments) {
      if (static_cast<std::size_t>(std::max(segment.device, 0)) != device_) continue;
      left_.reserved_bytes += segment.bytes;
      for (const SnapshotBlock& block : snapshot_.blocks_of(segment))
        if (block.allocated) add_left(block);
    }
    find_what_was_there();
    history_.whole = history_.tensors.empty() && history_.before.reserved_bytes == 0;
    if (!history_.whole) blocks_.lose();
    // What is not known of the beginning is what makes the end right.
    const SnapshotReading deltas = walk();
    history_.before.allocated_bytes = left_.allocated_bytes - deltas.allocated_bytes;
    history_.before.requested_bytes = left_.requested_bytes - deltas.requested_bytes;
    const std::int64_t allocated = history_.before.allocated_bytes, requested = history_.before.requested_bytes;
    history_.adds_up =
        history_.whole ? allocated == 0 && requested == 0 && !blocks_.lost() : allocated >= 0 && requested >= 0;
    if (history_.whole) history_.before = {};
    history_.peak.allocated_bytes += history_.before.allocated_bytes;
    history_.peak.requested_bytes += history_.before.requested_bytes;
    history_.end = left_;
    for (SnapshotOutOfMemory& oom : history_.out_of_memory) {
      oom.at.allocated_bytes += history_.before.allocated_bytes;
      oom.at.requested_bytes += history_.before.requested_bytes;
    }
    return std::move(history_);
  }

 private:
  struct Alive {
    std::uint32_t tensor = 0;
    bool requested = false;  // to be freed
  };

  void add_left(const SnapshotBlock& block) {
    left_.allocated_bytes += block.bytes;
    left_.requested_bytes += block.requested_bytes;
    at_end_[block.address] = &block;
  }

  // Blocks that the events free, or leave alive, and that no event made; and what was reserved.
  void find_what_was_there() {
    std::unordered_set<std::uint64_t> made;
    std::int64_t reserved = 0;
    for (const SnapshotEvent& e : events_) {
      switch (e.action) {
        case SnapshotAction::alloc: made.insert(e.address); break;
        case SnapshotAction::free_completed:
          if (made.erase(e.address) == 0) add_before(e.address, e.bytes, e.bytes, kNoStack);
          break;
        case SnapshotAction::segment_alloc:
        case SnapshotAction::segment_map: reserved += e.bytes; break;
        case SnapshotAction::segment_free:
        case SnapshotAction::segment_unmap: reserved -= e.bytes; break;
        default: break;
      }
    }
    for (const auto& [address, block] : at_end_)
      if (!made.contains(address)) add_before(address, block->bytes, block->requested_bytes, block->stack);
    history_.before.reserved_bytes = left_.reserved_bytes - reserved;
  }
  void add_before(std::uint64_t address, std::int64_t bytes, std::int64_t requested, std::uint32_t stack) {
    alive_[address] = {static_cast<std::uint32_t>(history_.tensors.size()), false};
    history_.tensors.push_back(
        {.address = address, .bytes = blocks_.rounded(bytes), .requested_bytes = requested, .stack = stack});
  }

  // What the events change in all.
  SnapshotReading walk() {
    now_.reserved_bytes = history_.before.reserved_bytes;
    history_.peak.reserved_bytes = now_.reserved_bytes;
    for (std::uint32_t i = 0; i < events_.size(); ++i) happen(i, events_[i]);
    return now_;
  }

  void happen(std::uint32_t i, const SnapshotEvent& e) {
    switch (e.action) {
      case SnapshotAction::alloc: made(i, e); break;
      case SnapshotAction::free_requested: freed(i, e.address); break;
      case SnapshotAction::free_completed:
        freed(i, e.address);  // where only this is told
        blocks_.free(e.address);
        alive_.erase(e.address);
        break;
      case SnapshotAction::segment_alloc:
      case SnapshotAction::segment_map:
        blocks_.add_memory(e.address, e.bytes, e.action == SnapshotAction::segment_alloc);
        now_.reserved_bytes += e.bytes;
        history_.peak.reserved_bytes = std::max(history_.peak.reserved_bytes, now_.reserved_bytes);
        break;
      case SnapshotAction::segment_free:
      case SnapshotAction::segment_unmap:
        blocks_.remove_memory(e.address, e.bytes);
        now_.reserved_bytes -= e.bytes;
        break;
      case SnapshotAction::oom:
        history_.out_of_memory.push_back(
            {.event = i,
             .asked_bytes = e.bytes,
             .free_bytes = static_cast<std::int64_t>(e.address),
             .at = now_,
             .largest_free_bytes = history_.out_of_memory.size() < kLookedAt ? blocks_.largest_free() : std::nullopt});
        break;
      default: break;
    }
  }

  void made(std::uint32_t i, const SnapshotEvent& e) {
    const std::int64_t bytes = blocks_.allocate(e.address, e.bytes);
    alive_[e.address] = {static_cast<std::uint32_t>(history_.tensors.size()), false};
    history_.tensors.push_back({.address = e.address,
                                .bytes = bytes,
                                .requested_bytes = e.bytes,
                                .made = i,
                                .freed = kNotFreed,
                                .stack = e.stack});
    now_.allocated_bytes += bytes;
    now_.requested_bytes += e.bytes;
    history_.peak.requested_bytes = std::max(history_.peak.requested_bytes, now_.requested_bytes);
    if (now_.allocated_bytes <= history_.peak.allocated_bytes) return;
    history_.peak.allocated_bytes = now_.allocated_bytes;
    history_.peak_event = i;
    history_.reserved_at_peak = now_.reserved_bytes;
  }

  void freed(std::uint32_t i, std::uint64_t address) {
    const auto at = alive_.find(address);
    if (at == alive_.end() || at->second.requested) return;
    at->second.requested = true;
    SnapshotTensor& tensor = history_.tensors[at->second.tensor];
    tensor.freed = i;
    now_.allocated_bytes -= tensor.bytes;
    now_.requested_bytes -= tensor.requested_bytes;
  }

  const Snapshot& snapshot_;
  std::size_t device_;
  std::span<const SnapshotEvent> events_;
  std::unordered_map<std::uint64_t, const SnapshotBlock*> at_end_;
  std::unordered_map<std::uint64_t, Alive> alive_;
  FollowedBlocks blocks_;
  SnapshotReading now_, left_;
  SnapshotHistory history_;
};

}  // namespace

std::string doubt_about(const SnapshotHistory& history) {
  if (!history.adds_up) return "what the events leave is not what the segments hold at the end; peaks may be off";
  if (history.whole) return "";
  return "the history begins with " + format_bytes(history.before.allocated_bytes) +
         " allocated: its ring dropped what was before (max_entries), or recording began late. A peak before that is "
         "not "
         "seen, and blocks count with their sizes rounded up to 512 bytes";
}

bool was_used(const Snapshot& snapshot, std::size_t device) {
  return std::ranges::any_of(snapshot.events_of(device),
                             [](const SnapshotEvent& e) { return e.action != SnapshotAction::snapshot; }) ||
         std::ranges::any_of(snapshot.segments,
                             [&](const SnapshotSegment& s) { return s.device == static_cast<std::int32_t>(device); });
}

bool has_private_pools(const Snapshot& snapshot, std::size_t device) {
  return std::ranges::any_of(snapshot.segments, [&](const SnapshotSegment& s) {
    return s.private_pool && s.device == static_cast<std::int32_t>(device);
  });
}

SnapshotHistory follow(const Snapshot& snapshot, std::size_t device) { return Follower(snapshot, device).follow(); }

}  // namespace gpuplan
