// The half of the allocator that every call runs: rounding, best fit, splitting, merging.
#include "estimator/allocator/allocator.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>

#include "estimator/allocator/allocator_constants.h"
#include "estimator/base/error.h"
#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

// roundup_power2_next_division: the next of `divisions` equal steps between two powers of two. Both are
// powers of two with bytes > 512 * divisions, so a step is a multiple of 512.
std::int64_t round_to_division(std::int64_t bytes, std::int64_t divisions) {
  const auto floor = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(bytes)));
  return round_up(bytes, floor / divisions);
}

}  // namespace

CachingAllocator::CachingAllocator(SegmentSource& source, AllocatorSettings settings)
    : source_(source),
      settings_(std::move(settings)),
      default_rounding_(settings_.roundup_by_interval.empty() && settings_.roundup_power2_divisions <= 1),
      any_fit_(!settings_.expandable_segments && settings_.max_split_bytes == INT64_MAX) {
  constexpr std::size_t kUsualBlocks = 1024;  // of a ResNet-50 with Adam
  blocks_.reserve(kUsualBlocks);
  add_stream(0);
}

std::int64_t rounded_request(std::int64_t bytes, const AllocatorSettings& settings) {
  std::int64_t divisions = settings.roundup_power2_divisions;
  if (!settings.roundup_by_interval.empty()) {
    const auto last = static_cast<int>(settings.roundup_by_interval.size()) - 1;
    const int log2 = 63 - std::countl_zero(static_cast<std::uint64_t>(bytes));
    divisions = settings.roundup_by_interval[static_cast<std::size_t>(std::clamp(log2 - kFirstIntervalLog2, 0, last))];
  }
  if (divisions > 1 && bytes > kMinBlockBytes * divisions) return round_to_division(bytes, divisions);
  return round_up(bytes, kMinBlockBytes);
}

std::uint32_t CachingAllocator::pool_index(std::int64_t stream, bool small) {
  std::uint32_t index = 0;
  if (stream != 0) {
    while (index < streams_.size() && streams_[index] != stream) ++index;
    if (index == streams_.size()) index = add_stream(stream);
  }
  return 2 * index + (small ? 0U : 1U);
}

std::uint32_t CachingAllocator::add_stream(std::int64_t stream) {
  streams_.push_back(stream);
  for (const bool small : {true, false}) {
    Pool& pool = pools_.emplace_back(blocks_);
    pool.stream = stream;
    pool.small = small;
  }
  return static_cast<std::uint32_t>(streams_.size()) - 1;
}

bool CachingAllocator::splits(const Pool& pool, std::int64_t bytes, std::int64_t rest) const {
  if (pool.small || settings_.expandable_segments) return rest >= kMinBlockBytes;
  return bytes < settings_.max_split_bytes && rest > kSmallBytes;
}

// get_free_block: the smallest free block that fits, with two exceptions; kNoBlock when there is none.
BlockId CachingAllocator::take_fit(Pool& pool, std::int64_t bytes) {
  if (any_fit_) return pool.free.take(bytes);
  BlockId id = pool.free.lower_bound(bytes);
  if (id == kNoBlock) return kNoBlock;
  if (settings_.expandable_segments) {
    // A block before unmapped pages counts as what it could grow to, so it is used last.
    for (BlockId next = pool.free.next(id); next != kNoBlock && expandable_bytes(next) < expandable_bytes(id);
         next = pool.free.next(id))
      id = next;
  }
  const std::int64_t found = blocks_[id].bytes;
  const bool allowed = bytes < settings_.max_split_bytes ? found < settings_.max_split_bytes
                                                         : found - bytes < settings_.max_non_split_rounding_bytes;
  if (!allowed) return kNoBlock;
  pool.free.erase(id);
  return id;
}

BlockId CachingAllocator::new_block(std::uint64_t address, std::int64_t bytes, std::uint32_t pool) {
  BlockId id = spare_;
  if (id == kNoBlock) {
    id = static_cast<BlockId>(blocks_.size());
    blocks_.emplace_back();
  } else {
    spare_ = blocks_[id].next;
  }
  PoolBlock& b = blocks_[id];
  b.address = address;
  b.bytes = bytes;
  b.requested_bytes = 0;
  b.previous = b.next = kNoBlock;
  b.pool = pool;
  b.allocated = false;
  b.mapped = true;
  return id;
}

void CachingAllocator::drop_block(BlockId id) {
  blocks_[id].next = spare_;
  spare_ = id;
}

void CachingAllocator::insert_free(BlockId id) {
  PoolBlock& b = blocks_[id];
  b.freed_at = large_lookups_;
  pools_[b.pool].free.insert(id);
}

// Cuts the first `bytes` off a block; the rest keeps the id. Returns the front.
BlockId CachingAllocator::split_front(BlockId id, std::int64_t bytes) {
  const BlockId front = new_block(blocks_[id].address, bytes, blocks_[id].pool);
  PoolBlock& b = blocks_[id];
  blocks_[front].previous = b.previous;
  blocks_[front].next = id;
  if (b.previous != kNoBlock) blocks_[b.previous].next = front;
  b.previous = front;
  b.address += static_cast<std::uint64_t>(bytes);
  b.bytes -= bytes;
  return front;
}

// Half of a plan's allocations end here: what it calls is inlined into it.
[[gnu::flatten]] BlockId CachingAllocator::allocate(std::int64_t requested, std::int64_t stream) {
  if (requested <= 0) {
    if (requested < 0) throw Error("an allocation of a negative number of bytes");
    return kNoBlock;
  }
  if (requested > kMaxRequestBytes) throw Error("an allocation of more bytes than any address space has");
  if (!waiting_.empty()) process_events();
  const std::int64_t bytes =
      default_rounding_ ? round_up(requested, kMinBlockBytes) : rounded_request(requested, settings_);
  const std::uint32_t pool_id = pool_index(stream, bytes <= kSmallBytes);
  if (collects_garbage() && !pools_[pool_id].small) ++large_lookups_;

  BlockId id = take_fit(pools_[pool_id], bytes);
  if (id == kNoBlock) id = grow(pool_id, bytes);
  if (id == kNoBlock) {
    out_of_memory_ = {segment_bytes(bytes), requested, allocated_.now, reserved_.now};
    return kOutOfMemory;
  }

  const bool was_split = is_split(blocks_[id]);
  const std::int64_t rest = blocks_[id].bytes - bytes;
  std::int64_t inactive = was_split ? -blocks_[id].bytes : 0;
  if (splits(pools_[pool_id], bytes, rest)) {
    const BlockId remainder = id;
    id = split_front(id, bytes);
    insert_free(remainder);
    inactive += rest;
  }
  if (!settings_.expandable_segments) inactive_split_.add(inactive);

  PoolBlock& b = blocks_[id];
  b.allocated = true;
  b.requested_bytes = requested;
  allocated_.add(b.bytes);
  requested_.add(requested);
  return id;
}

// The free block that it would be cut from has no free neighbours, so that the release would put the same block back.
std::optional<std::int64_t> CachingAllocator::use(std::int64_t requested) {
  if (!any_fit_ || !default_rounding_ || collects_garbage() || requested <= 0 || requested > kMaxRequestBytes)
    return std::nullopt;
  if (!waiting_.empty()) process_events();
  const std::int64_t bytes = round_up(requested, kMinBlockBytes);
  Pool& pool = pools_[pool_index(0, bytes <= kSmallBytes)];
  const BlockId id = pool.free.lower_bound(bytes);
  if (id == kNoBlock) return std::nullopt;
  const PoolBlock& b = blocks_[id];
  const bool cut = splits(pool, bytes, b.bytes - bytes);
  const std::int64_t charged = cut ? bytes : b.bytes;
  allocated_.touch(charged);
  requested_.touch(requested);
  inactive_split_.touch((cut ? b.bytes - bytes : 0) - (is_split(b) ? b.bytes : 0));
  return charged;
}

void CachingAllocator::release(BlockId id) {
  if (id == kNoBlock) return;
  PoolBlock& b = blocks_[id];
  if (!b.allocated) throw std::logic_error("a block is released twice");
  b.allocated = false;
  allocated_.now -= b.bytes;
  requested_.now -= b.requested_bytes;
  b.requested_bytes = 0;
  b.freed_at = large_lookups_;

  FreeBlocks& free = pools_[b.pool].free;
  std::int64_t subsumed = 0;
  if (const BlockId previous = b.previous; is_free(previous)) {
    const PoolBlock& p = blocks_[previous];
    free.erase(previous);
    subsumed += p.bytes;
    b.address = p.address;
    b.bytes += p.bytes;
    b.previous = p.previous;
    if (b.previous != kNoBlock) blocks_[b.previous].next = id;
    drop_block(previous);
  }
  if (const BlockId next = b.next; is_free(next)) {
    const PoolBlock& n = blocks_[next];
    free.erase(next);
    subsumed += n.bytes;
    b.bytes += n.bytes;
    b.next = n.next;
    if (b.next != kNoBlock) blocks_[b.next].previous = id;
    drop_block(next);
  }
  free.insert(id);
  if (!settings_.expandable_segments) inactive_split_.add((is_split(b) ? b.bytes : 0) - subsumed);
}

// DeviceCachingAllocator::free takes a block out of allocated_bytes, and free_block out of the rest.
void CachingAllocator::release_later(BlockId id) {
  if (id == kNoBlock) return;
  allocated_.now -= blocks_[id].bytes;
  waiting_.push_back(id);
}

void CachingAllocator::process_events() {
  for (const BlockId id : waiting_) {
    allocated_.now += blocks_[id].bytes;
    release(id);
  }
  waiting_.clear();
}

}  // namespace gpuplan
