#include "tests/support/block_checker.h"

#include <algorithm>
#include <vector>

namespace gpuplan {
namespace {

struct Sums {
  std::int64_t allocated = 0, requested = 0, reserved = 0, inactive_split = 0, largest_free = 0;
};

std::string at(std::uint64_t address) { return " at address " + std::to_string(address); }

std::string check_segment(const SegmentView& segment, Sums& sums, std::vector<BlockView>& allocated) {
  std::uint64_t expected = segment.address;
  bool free_before = false;
  for (const BlockView& block : segment.blocks) {
    if (block.address != expected) return "a gap or an overlap" + at(expected);
    if (block.bytes <= 0 || block.bytes % 512 != 0)
      return "a block of " + std::to_string(block.bytes) + " bytes" + at(expected);
    if (block.requested_bytes > block.bytes) return "a block smaller than its request" + at(expected);
    if (!block.allocated && free_before) return "two free neighbours" + at(expected);
    free_before = !block.allocated;
    expected += static_cast<std::uint64_t>(block.bytes);
    if (block.allocated) {
      allocated.push_back(block);
      sums.allocated += block.bytes;
      sums.requested += block.requested_bytes;
    } else {
      sums.largest_free = std::max(sums.largest_free, block.bytes);
      if (segment.blocks.size() > 1 && !segment.expandable) sums.inactive_split += block.bytes;
    }
  }
  if (expected != segment.address + static_cast<std::uint64_t>(segment.bytes))
    return "blocks do not fill the segment" + at(segment.address);
  sums.reserved += segment.bytes;
  return "";
}

std::string check_live(std::span<const LiveBlock> live, const std::vector<BlockView>& allocated) {
  std::vector<LiveBlock> sorted(live.begin(), live.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.address < b.address; });
  if (sorted.size() != allocated.size())
    return std::to_string(allocated.size()) + " blocks are allocated, " + std::to_string(sorted.size()) + " are held";
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const LiveBlock& held = sorted[i];
    if (held.address != allocated[i].address) return "a block held or allocated only" + at(held.address);
    if (held.requested_bytes != allocated[i].requested_bytes) return "another size was asked for" + at(held.address);
    const bool last = i + 1 == sorted.size();
    if (!last && held.address + static_cast<std::uint64_t>(held.requested_bytes) > sorted[i + 1].address)
      return "two blocks overlap" + at(held.address);
  }
  return "";
}

std::string differs(const char* what, std::int64_t counter, std::int64_t sum) {
  if (counter == sum) return "";
  return std::string(what) + " counts " + std::to_string(counter) + " bytes, the blocks sum to " + std::to_string(sum);
}

}  // namespace

std::string check_blocks(const CachingAllocator& allocator, std::span<const LiveBlock> live) {
  Sums sums;
  std::vector<BlockView> allocated;
  std::uint64_t end = 0;
  for (const SegmentView& segment : allocator.segments()) {
    if (segment.address < end) return "two segments overlap" + at(segment.address);
    end = segment.address + static_cast<std::uint64_t>(segment.bytes);
    if (std::string why = check_segment(segment, sums, allocated); !why.empty()) return why;
  }
  if (std::string why = check_live(live, allocated); !why.empty()) return why;
  for (const std::string& why : {differs("allocated", allocator.allocated_bytes(), sums.allocated),
                                 differs("requested", allocator.requested_bytes(), sums.requested),
                                 differs("reserved", allocator.reserved_bytes(), sums.reserved),
                                 differs("inactive split", allocator.inactive_split_bytes(), sums.inactive_split),
                                 differs("largest free", allocator.largest_free_bytes(), sums.largest_free)})
    if (!why.empty()) return why;
  return "";
}

}  // namespace gpuplan
