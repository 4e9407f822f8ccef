// The half of the allocator that every call runs: rounding, best fit, splitting, merging.
#include "estimator/memory/allocator.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "estimator/error.h"
#include "estimator/integers.h"
#include "estimator/memory/allocator_constants.h"

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
    : source_(source), settings_(std::move(settings)) {
  blocks_.reserve(256);
  add_stream(0);
}

std::int64_t CachingAllocator::rounded(std::int64_t bytes) const {
  std::int64_t divisions = settings_.roundup_power2_divisions;
  if (!settings_.roundup_by_interval.empty()) {
    const auto last = static_cast<int>(settings_.roundup_by_interval.size()) - 1;
    const int log2 = 63 - std::countl_zero(static_cast<std::uint64_t>(bytes));
    divisions = settings_.roundup_by_interval[static_cast<std::size_t>(std::clamp(log2 - kFirstIntervalLog2, 0, last))];
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
    Pool& pool = pools_.emplace_back();
    pool.stream = stream;
    pool.small = small;
  }
  return static_cast<std::uint32_t>(streams_.size()) - 1;
}

bool CachingAllocator::splits(const Pool& pool, std::int64_t bytes, std::int64_t rest) const {
  if (pool.small || settings_.expandable_segments) return rest >= kMinBlockBytes;
  return bytes < settings_.max_split_bytes && rest > kSmallBytes;
}

bool CachingAllocator::find_fit(Pool& pool, std::int64_t bytes, FreeBlocks::Position& at) {
  if (!pool.free.lower_bound(bytes, 0, at)) return false;
  if (settings_.expandable_segments) {
    // A block before unmapped pages counts as what it could grow to, so it is used last.
    FreeBlocks::Position next = at;
    while (pool.free.advance(next) && expandable_bytes(pool.free[next].block) < expandable_bytes(pool.free[at].block))
      at = next;
  }
  const std::int64_t found = pool.free[at].bytes;
  if (bytes < settings_.max_split_bytes) return found < settings_.max_split_bytes;
  return found - bytes < settings_.max_non_split_rounding_bytes;
}

BlockId CachingAllocator::new_block(std::uint64_t address, std::int64_t bytes, std::uint32_t pool) {
  BlockId id = spare_;
  if (id == kNoBlock) {
    id = static_cast<BlockId>(blocks_.size());
    blocks_.emplace_back();
  } else {
    spare_ = blocks_[id].next;
  }
  Block& b = blocks_[id];
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
  Block& b = blocks_[id];
  b.freed_at = large_lookups_;
  pools_[b.pool].free.insert({b.bytes, b.address, id});
}

// Cuts the first `bytes` off a block; the rest keeps the id. Returns the front.
BlockId CachingAllocator::split_front(BlockId id, std::int64_t bytes) {
  const BlockId front = new_block(blocks_[id].address, bytes, blocks_[id].pool);
  Block& b = blocks_[id];
  blocks_[front].previous = b.previous;
  blocks_[front].next = id;
  if (b.previous != kNoBlock) blocks_[b.previous].next = front;
  b.previous = front;
  b.address += static_cast<std::uint64_t>(bytes);
  b.bytes -= bytes;
  return front;
}

BlockId CachingAllocator::allocate(std::int64_t requested, std::int64_t stream) {
  if (requested <= 0) {
    if (requested < 0) throw Error("an allocation of a negative number of bytes");
    return kNoBlock;
  }
  if (requested > kMaxRequestBytes) throw Error("an allocation of more bytes than any address space has");
  const std::int64_t bytes = rounded(requested);
  const std::uint32_t pool_id = pool_index(stream, bytes <= kSmallBytes);
  if (collects_garbage() && !pools_[pool_id].small) ++large_lookups_;

  FreeBlocks::Position at;
  const bool cached = find_fit(pools_[pool_id], bytes, at);
  BlockId id = cached ? pools_[pool_id].free[at].block : grow(pool_id, bytes);
  if (id == kNoBlock) {
    out_of_memory_ = {segment_bytes(bytes), requested, allocated_.now, reserved_.now};
    return kOutOfMemory;
  }

  Pool& pool = pools_[pool_id];
  const bool was_split = is_split(blocks_[id]);
  const std::int64_t rest = blocks_[id].bytes - bytes;
  if (splits(pool, bytes, rest)) {
    const BlockId remainder = id;
    id = split_front(id, bytes);
    Block& b = blocks_[remainder];
    b.freed_at = large_lookups_;
    if (cached) {
      pool.free.replace(at, {b.bytes, b.address, remainder});
    } else {
      pool.free.insert({b.bytes, b.address, remainder});
    }
    if (!settings_.expandable_segments) inactive_split_.add(was_split ? -bytes : rest);
  } else {
    if (cached) pool.free.erase(at);
    if (was_split && !settings_.expandable_segments) inactive_split_.add(-blocks_[id].bytes);
  }

  Block& b = blocks_[id];
  b.allocated = true;
  b.requested_bytes = requested;
  allocated_.add(b.bytes);
  requested_.add(requested);
  return id;
}

void CachingAllocator::release(BlockId id) {
  if (id == kNoBlock) return;
  Block& b = blocks_[id];
  b.allocated = false;
  allocated_.now -= b.bytes;
  requested_.now -= b.requested_bytes;
  b.requested_bytes = 0;
  b.freed_at = large_lookups_;

  FreeBlocks& free = pools_[b.pool].free;
  FreeBlocks::Position at;
  bool listed = false;  // at[] is a neighbour's entry, to be replaced
  std::int64_t subsumed = 0;
  if (const BlockId previous = b.previous; is_free(previous)) {
    const Block& p = blocks_[previous];
    subsumed += p.bytes;
    free.lower_bound(p.bytes, p.address, at);
    listed = true;
    b.address = p.address;
    b.bytes += p.bytes;
    b.previous = p.previous;
    if (b.previous != kNoBlock) blocks_[b.previous].next = id;
    drop_block(previous);
  }
  if (const BlockId next = b.next; is_free(next)) {
    const Block& n = blocks_[next];
    subsumed += n.bytes;
    if (listed) free.erase(at);
    free.lower_bound(n.bytes, n.address, at);
    listed = true;
    b.bytes += n.bytes;
    b.next = n.next;
    if (b.next != kNoBlock) blocks_[b.next].previous = id;
    drop_block(next);
  }
  const FreeBlocks::Entry entry{b.bytes, b.address, id};
  if (listed) {
    free.replace(at, entry);
  } else {
    free.insert(entry);
  }
  if (!settings_.expandable_segments) inactive_split_.add((is_split(b) ? b.bytes : 0) - subsumed);
}

void CachingAllocator::reset_peaks() {
  for (PeakCounter* counter : {&allocated_, &requested_, &reserved_, &inactive_split_}) counter->peak = counter->now;
}

}  // namespace gpuplan
