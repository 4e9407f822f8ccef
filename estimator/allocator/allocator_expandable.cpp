// Expandable segments: one range of addresses per pool and stream whose pages are mapped when needed. A
// range is a chain of blocks that are allocated, free or unmapped; unmapped neighbours are always one block.
#include <algorithm>
#include <iterator>

#include "estimator/allocator/allocator.h"
#include "estimator/allocator/allocator_constants.h"
#include "estimator/base/integers.h"

namespace gpuplan {

void CachingAllocator::insert_unmapped(BlockId id) {
  auto& unmapped = pools_[blocks_[id].pool].unmapped;
  const auto at = std::partition_point(unmapped.begin(), unmapped.end(),
                                       [&](BlockId u) { return blocks_[u].address < blocks_[id].address; });
  unmapped.insert(at, id);
}

void CachingAllocator::erase_unmapped(BlockId id) { std::erase(pools_[blocks_[id].pool].unmapped, id); }

// What the block could grow to without moving.
std::int64_t CachingAllocator::expandable_bytes(BlockId id) const {
  const PoolBlock& b = blocks_[id];
  const bool grows = b.next != kNoBlock && !blocks_[b.next].mapped;
  return b.bytes + (grows ? blocks_[b.next].bytes : 0);
}

// Appends the next block, which is in no list any more, to this one.
void CachingAllocator::absorb_next(BlockId id) {
  PoolBlock& b = blocks_[id];
  const BlockId next = b.next;
  b.bytes += blocks_[next].bytes;
  b.next = blocks_[next].next;
  if (b.next != kNoBlock) blocks_[b.next].previous = id;
  drop_block(next);
}

// find_expandable_block: the lowest address from where free and unmapped blocks in a row have room for
// `bytes`; a new range when there is none.
BlockId CachingAllocator::find_extensible(std::uint32_t pool_id, std::int64_t bytes) {
  for (BlockId id : pools_[pool_id].unmapped) {
    if (is_free(blocks_[id].previous)) id = blocks_[id].previous;
    std::int64_t room = 0;
    for (BlockId at = id; at != kNoBlock && !blocks_[at].allocated && room < bytes; at = blocks_[at].next)
      room += blocks_[at].bytes;
    if (room >= bytes) return id;
  }
  const std::int64_t page = page_bytes(pools_[pool_id]);
  const std::int64_t range = round_up(std::max(settings_.expandable_range_bytes, bytes), page);
  const std::uint64_t address = source_.reserve(range);
  if (address == 0) return kNoBlock;
  const BlockId id = new_block(address, range, pool_id);
  blocks_[id].mapped = false;
  insert_unmapped(id);
  ranges_.insert(std::upper_bound(ranges_.begin(), ranges_.end(), address), address);
  return id;
}

// map_block: maps the first pages of an unmapped block, enough for `bytes`, and lists them as free, merged
// with free neighbours. Returns the free block they are in; kNoBlock when the source has no room.
BlockId CachingAllocator::map_front(BlockId id, std::int64_t bytes) {
  const std::uint32_t pool_id = blocks_[id].pool;
  const std::int64_t mapped = round_up(bytes, page_bytes(pools_[pool_id]));
  if (!source_.map(blocks_[id].address, mapped)) return kNoBlock;
  reserved_.add(mapped);

  BlockId front = id;
  if (mapped < blocks_[id].bytes) {
    front = split_front(id, mapped);  // the rest stays in the list of unmapped blocks, in the same place
  } else {
    erase_unmapped(id);
  }
  blocks_[front].mapped = true;
  FreeBlocks& free = pools_[pool_id].free;
  if (const BlockId next = blocks_[front].next; is_free(next)) {
    free.erase(next);
    absorb_next(front);
  }
  if (const BlockId previous = blocks_[front].previous; is_free(previous)) {
    free.erase(previous);
    absorb_next(previous);
    front = previous;
  }
  insert_free(front);
  return front;
}

// try_allocate_expandable_block. Pages mapped before the source runs dry stay mapped, as in PyTorch.
BlockId CachingAllocator::extend(std::uint32_t pool_id, std::int64_t bytes) {
  BlockId id = find_extensible(pool_id, bytes);
  if (id == kNoBlock) return kNoBlock;
  if (!blocks_[id].mapped) id = map_front(id, std::min(blocks_[id].bytes, bytes));
  while (id != kNoBlock && blocks_[id].bytes < bytes) {
    const BlockId unmapped = blocks_[id].next;
    id = map_front(unmapped, std::min(bytes - blocks_[id].bytes, blocks_[unmapped].bytes));
  }
  if (id != kNoBlock) pools_[pool_id].free.erase(id);
  return id;
}

// unmap_block: gives back the whole pages within a free block; what is left at its ends stays free.
void CachingAllocator::unmap_pages(BlockId id) {
  const std::uint32_t pool_id = blocks_[id].pool;
  const std::int64_t page = page_bytes(pools_[pool_id]);
  const std::uint64_t base = *std::prev(std::upper_bound(ranges_.begin(), ranges_.end(), blocks_[id].address));
  const auto offset = static_cast<std::int64_t>(blocks_[id].address - base);
  const std::int64_t begin = round_up(offset, page);
  const std::int64_t end = (offset + blocks_[id].bytes) / page * page;
  if (begin >= end) return;

  FreeBlocks& free = pools_[pool_id].free;
  free.erase(id);
  if (begin > offset) insert_free(split_front(id, begin - offset));
  BlockId middle = id;
  if (blocks_[id].bytes > end - begin) {
    middle = split_front(id, end - begin);
    insert_free(id);
  }
  source_.unmap(blocks_[middle].address, end - begin);
  reserved_.now -= end - begin;

  blocks_[middle].mapped = false;
  if (const BlockId next = blocks_[middle].next; next != kNoBlock && !blocks_[next].mapped) {
    erase_unmapped(next);
    absorb_next(middle);
  }
  if (const BlockId previous = blocks_[middle].previous; previous != kNoBlock && !blocks_[previous].mapped) {
    erase_unmapped(previous);
    absorb_next(previous);
    middle = previous;
  }
  insert_unmapped(middle);
}

}  // namespace gpuplan
