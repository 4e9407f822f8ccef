#include "estimator/allocator/free_blocks.h"

#include <algorithm>

namespace gpuplan {

BlockId FreeBlocks::last() const {
  for (std::size_t word = kWords; word-- > 0;) {
    if (used_[word] == 0) continue;
    const BlockId head = heads_[word * 64 + 63 - static_cast<std::size_t>(std::countl_zero(used_[word]))];
    if (head < kFirstSpill) return block(head).free_previous;
    const SortedBlocks& spill = spills_[head - kFirstSpill];
    SortedBlocks::Position at;
    spill.last(at);
    return spill[at].block;
  }
  return kNoBlock;
}

BlockId FreeBlocks::next(BlockId id) const {
  const PoolBlock& b = block(id);
  const std::size_t bin = bin_of(b.bytes);
  if (heads_[bin] < kFirstSpill) return b.free_next != kNoBlock ? b.free_next : first_from(bin + 1);
  const SortedBlocks& spill = spills_[heads_[bin] - kFirstSpill];
  SortedBlocks::Position at;
  spill.lower_bound(b.bytes, b.address, at);
  return spill.advance(at) ? spill[at].block : first_from(bin + 1);
}

BlockId FreeBlocks::first_spilled(BlockId head) const {
  SortedBlocks::Position at;
  return spills_[head - kFirstSpill].first(at) ? spills_[head - kFirstSpill][at].block : kNoBlock;
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
  const SortedBlocks& spill = spills_[heads_[bin] - kFirstSpill];
  SortedBlocks::Position at;
  return spill.lower_bound(bytes, 0, at) ? spill[at].block : kNoBlock;
}

// Lists a block in a bin in use.
void FreeBlocks::insert_behind(std::size_t bin, BlockId id) {
  PoolBlock& b = block(id);
  const BlockId head = heads_[bin];
  if (head >= kFirstSpill) return spills_[head - kFirstSpill].insert({b.bytes, b.address, id});

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
  SortedBlocks& spill = spills_[heads_[bin] - kFirstSpill];
  spill.erase(block(id).bytes, block(id).address);
  if (spill.empty()) unmark(bin);
}

// Turns the list of a bin into a SortedBlocks, one left empty by another bin or a new one.
void FreeBlocks::spill(std::size_t bin) {
  const auto spare = std::find_if(spills_.begin(), spills_.end(), [](const SortedBlocks& s) { return s.empty(); });
  const auto index = static_cast<BlockId>(spare - spills_.begin());
  if (spare == spills_.end()) spills_.emplace_back();
  for (BlockId id = heads_[bin]; id != kNoBlock; id = block(id).free_next)
    spills_[index].insert({block(id).bytes, block(id).address, id});
  heads_[bin] = kFirstSpill + index;
}

}  // namespace gpuplan
