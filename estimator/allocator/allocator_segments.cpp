// The half of the allocator that runs seldom: segments come from the source and go back to it.
#include <algorithm>

#include "estimator/allocator/allocator.h"
#include "estimator/allocator/allocator_constants.h"
#include "estimator/base/integers.h"

namespace gpuplan {

std::uint64_t ArithmeticSegments::allocate(std::int64_t bytes) {
  if (bytes > capacity_bytes_ - used_bytes_) return 0;
  used_bytes_ += bytes;
  return order_ == SegmentOrder::rising ? reserve(bytes) : addresses_.place(bytes);
}

void ArithmeticSegments::release(std::uint64_t address, std::int64_t bytes) {
  used_bytes_ -= bytes;
  if (order_ == SegmentOrder::driver) addresses_.release(address, bytes);
}

std::uint64_t ArithmeticSegments::reserve(std::int64_t bytes) {
  if (order_ == SegmentOrder::driver) return addresses_.place_alone(bytes);
  const std::uint64_t address = next_address_;
  next_address_ += static_cast<std::uint64_t>(round_up(bytes, kSegmentStepBytes));
  return address;
}

bool ArithmeticSegments::map(std::uint64_t, std::int64_t bytes) {
  if (bytes > capacity_bytes_ - used_bytes_) return false;
  used_bytes_ += bytes;
  return true;
}

void ArithmeticSegments::unmap(std::uint64_t, std::int64_t bytes) { used_bytes_ -= bytes; }

// get_allocation_size
std::int64_t CachingAllocator::segment_bytes(std::int64_t bytes) const {
  if (bytes <= kSmallBytes) return kSmallSegmentBytes;
  if (bytes < kMinLargeSegmentBytes) return settings_.large_segment_bytes;
  return round_up(bytes, kSegmentStepBytes);
}

std::int64_t CachingAllocator::page_bytes(const Pool& pool) const {
  return pool.small ? kSmallSegmentBytes : settings_.large_segment_bytes;
}

// malloc's fallbacks in order: collect garbage, a new segment, the same after letting go of oversize
// blocks, the same after emptying the cache. Returns a block that is in no list, or kNoBlock.
BlockId CachingAllocator::grow(std::uint32_t pool, std::int64_t bytes) {
  if (collects_garbage()) collect_garbage();
  BlockId id = add_segment(pool, bytes);
  if (id == kNoBlock && release_oversize(pools_[pool], bytes)) id = add_segment(pool, bytes);
  if (id == kNoBlock) {
    empty_cache();
    ++retry_count_;
    id = add_segment(pool, bytes);
  }
  return id;
}

// alloc_block
BlockId CachingAllocator::add_segment(std::uint32_t pool, std::int64_t bytes) {
  const std::int64_t size = segment_bytes(bytes);
  if (size > settings_.memory_limit_bytes - reserved_.now) return kNoBlock;
  if (settings_.expandable_segments) return extend(pool, bytes);
  const std::uint64_t address = source_.allocate(size);
  if (address == 0) return kNoBlock;
  reserved_.add(size);
  ++segment_count_;
  return new_block(address, size, pool);
}

void CachingAllocator::release_segment(BlockId id) {
  const PoolBlock& b = blocks_[id];
  source_.release(b.address, b.bytes);
  reserved_.now -= b.bytes;
  --segment_count_;
  pools_[b.pool].free.erase(id);
  drop_block(id);
}

// release_available_cached_blocks: under max_split_size_mb a block of that size or more serves one request
// only, so cached ones are given back, the smallest that is big enough or else the largest first.
bool CachingAllocator::release_oversize(Pool& pool, std::int64_t bytes) {
  if (settings_.max_split_bytes == INT64_MAX || settings_.expandable_segments) return false;
  const std::int64_t wanted = std::max(bytes, settings_.max_split_bytes);
  if (const BlockId id = pool.free.lower_bound(wanted); id != kNoBlock) {
    release_segment(id);
    return true;
  }
  std::int64_t released = 0;
  for (BlockId id = pool.free.last(); released < wanted && id != kNoBlock; id = pool.free.last()) {
    if (blocks_[id].bytes < settings_.max_split_bytes) break;
    released += blocks_[id].bytes;
    release_segment(id);
  }
  return released >= wanted;
}

// release_cached_blocks: large pools first, then small, of every stream.
void CachingAllocator::empty_cache() {
  if (!waiting_.empty()) process_events();
  std::vector<BlockId> releasable;
  for (const bool small : {false, true}) {
    for (Pool& pool : pools_) {
      if (pool.small != small) continue;
      releasable.clear();
      for (BlockId id = pool.free.first(); id != kNoBlock; id = pool.free.next(id)) {
        if (settings_.expandable_segments || !is_split(blocks_[id])) releasable.push_back(id);
      }
      for (const BlockId id : releasable) {
        if (settings_.expandable_segments) {
          unmap_pages(id);
        } else {
          release_segment(id);
        }
      }
    }
  }
}

// garbage_collect_cached_blocks: gives back whole free large segments that have waited at least the mean
// number of lookups, until what is reserved is below the threshold.
void CachingAllocator::collect_garbage() {
  const auto threshold = static_cast<std::int64_t>(settings_.garbage_collection_threshold *
                                                   static_cast<double>(settings_.memory_limit_bytes));
  if (reserved_.now <= threshold || settings_.expandable_segments) return;
  const std::int64_t target = reserved_.now - threshold;

  std::vector<BlockId> candidates;
  std::int64_t total_age = 0;
  for (const Pool& pool : pools_) {
    if (pool.small) continue;
    for (BlockId id = pool.free.first(); id != kNoBlock; id = pool.free.next(id)) {
      if (is_split(blocks_[id])) continue;
      candidates.push_back(id);
      total_age += large_lookups_ - blocks_[id].freed_at;
    }
  }
  std::int64_t reclaimed = 0;
  for (bool freed = true; reclaimed < target && freed && !candidates.empty();) {
    const double mean_age = static_cast<double>(total_age) / static_cast<double>(candidates.size());
    freed = false;
    std::erase_if(candidates, [&](BlockId id) {
      const std::int64_t age = large_lookups_ - blocks_[id].freed_at;
      if (static_cast<double>(age) < mean_age) return false;
      freed = true;
      reclaimed += blocks_[id].bytes;
      total_age -= age;
      release_segment(id);
      return true;
    });
  }
}

std::int64_t CachingAllocator::largest_free_bytes() const {
  std::int64_t largest = 0;
  for (const Pool& pool : pools_)
    if (const BlockId id = pool.free.last(); id != kNoBlock) largest = std::max(largest, blocks_[id].bytes);
  return largest;
}

std::vector<SegmentView> CachingAllocator::segments() const {
  std::vector<bool> spare(blocks_.size());
  for (BlockId id = spare_; id != kNoBlock; id = blocks_[id].next) spare[id] = true;

  std::vector<SegmentView> views;
  for (BlockId head = 0; head < blocks_.size(); ++head) {
    if (spare[head] || blocks_[head].previous != kNoBlock) continue;
    bool open = false;  // the last view goes on with the next block; unmapped pages end it
    for (BlockId id = head; id != kNoBlock; id = blocks_[id].next) {
      const PoolBlock& b = blocks_[id];
      const Pool& pool = pools_[b.pool];
      if (b.mapped && !open)
        views.push_back({b.address, 0, pool.stream, pool.small, settings_.expandable_segments, {}});
      open = b.mapped;
      if (!b.mapped) continue;
      views.back().bytes += b.bytes;
      views.back().blocks.push_back({b.address, b.bytes, b.requested_bytes, b.allocated});
    }
  }
  std::sort(views.begin(), views.end(), [](const auto& a, const auto& b) { return a.address < b.address; });
  return views;
}

}  // namespace gpuplan
