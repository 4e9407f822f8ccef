#include "estimator/allocator/free_blocks.h"

#include <algorithm>

namespace gpuplan {

BlockId FreeBlocks::last() const {
  for (std::size_t word = kWords; word-- > 0;) {
    if (used_[word] == 0) continue;
    const std::size_t bin = word * 64 + 63 - static_cast<std::size_t>(std::countl_zero(used_[word]));
    return heads_[bin] < kFirstSpill ? block(heads_[bin]).free_previous : spill_of(bin).rbegin()->block;
  }
  return kNoBlock;
}

BlockId FreeBlocks::next(BlockId id) const {
  const std::size_t bin = bin_of(block(id).bytes);
  BlockId after = block(id).free_next;
  if (heads_[bin] >= kFirstSpill) {
    const auto at = spill_of(bin).upper_bound(spilled(id));
    after = at == spill_of(bin).end() ? kNoBlock : at->block;
  }
  return after != kNoBlock ? after : first_from(bin + 1);
}

// The first block of at least `bytes` in a bin in use.
BlockId FreeBlocks::search_bin(std::size_t bin, std::int64_t bytes) {
  const BlockId head = heads_[bin];
  if (head < kFirstSpill) {
    if (block(block(head).free_previous).bytes < bytes) return kNoBlock;
    BlockId at = head;
    for (int steps = 0; steps < kLongWalk; ++steps, at = block(at).free_next)
      if (block(at).bytes >= bytes) return at;
    spill(bin);
  }
  const auto at = spill_of(bin).lower_bound({bytes, 0});
  return at == spill_of(bin).end() ? kNoBlock : at->block;
}

// Lists a block in a bin in use.
void FreeBlocks::insert_behind(std::size_t bin, BlockId id) {
  PoolBlock& b = block(id);
  const BlockId head = heads_[bin];
  if (head >= kFirstSpill) return (void)spill_of(bin).insert(spilled(id));

  const BlockId tail = block(head).free_previous;
  if (before(block(tail), b)) {
    b.free_previous = tail;
    b.free_next = kNoBlock;
    block(tail).free_next = id;
    block(head).free_previous = id;
    return;
  }
  BlockId at = head;
  for (int steps = 0; before(block(at), b); ++steps, at = block(at).free_next) {
    if (steps < kLongWalk) continue;
    spill(bin);
    return insert_behind(bin, id);
  }
  b.free_next = at;
  b.free_previous = block(at).free_previous;
  block(at).free_previous = id;
  if (at == head) {
    heads_[bin] = id;
  } else {
    block(b.free_previous).free_next = id;
  }
}

void FreeBlocks::erase_spilled(std::size_t bin, BlockId id) {
  spill_of(bin).erase(spilled(id));
  if (spill_of(bin).empty()) unmark(bin);
}

// Turns the list of a bin into a set, one left empty by another bin or a new one.
void FreeBlocks::spill(std::size_t bin) {
  const auto spare = std::ranges::find_if(spills_, &Spill::empty);
  const auto index = static_cast<BlockId>(spare - spills_.begin());
  if (spare == spills_.end()) spills_.emplace_back();
  for (BlockId id = heads_[bin]; id != kNoBlock; id = block(id).free_next) spills_[index].insert(spilled(id));
  heads_[bin] = kFirstSpill + index;
}

}  // namespace gpuplan
