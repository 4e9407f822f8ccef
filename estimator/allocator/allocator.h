// PyTorch's caching allocator, rule for rule, over any source of segments: arithmetic when planning,
// cudaMalloc when validating. Rules from c10/cuda/CUDACachingAllocator.cpp and c10/core/AllocatorConfig.h;
// private pools of CUDA graphs and record_stream are not modelled. All sizes are bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "estimator/allocator/free_blocks.h"
#include "estimator/allocator/pool_block.h"

namespace gpuplan {

struct AllocatorSettings {
  bool expandable_segments = false;
  std::int64_t max_split_bytes = INT64_MAX;              // max_split_size_mb
  std::int64_t max_non_split_rounding_bytes = 20 << 20;  // max_non_split_rounding_mb
  std::int64_t large_segment_bytes = 20 << 20;           // large_segment_size_mb
  std::int64_t roundup_power2_divisions = 0;             // 0: off (one value for all sizes)
  std::vector<std::int64_t> roundup_by_interval;         // the [256:1,512:2,...] form, empty: off
  double garbage_collection_threshold = 0;
  // torch.cuda.set_per_process_memory_fraction, as bytes: what may be reserved in all. Garbage
  // collection happens only under such a limit.
  std::int64_t memory_limit_bytes = INT64_MAX;
  // Address range of one expandable segment. PyTorch takes 9/8 of the device's memory; a bigger range
  // places the same unless memory is released in between.
  std::int64_t expandable_range_bytes = std::int64_t{1} << 40;
};

/// Parses PYTORCH_ALLOC_CONF ("expandable_segments:True,max_split_size_mb:32"). Throws Error (kind usage) with
/// the key's nearest spelling on what PyTorch would refuse.
AllocatorSettings parse_alloc_conf(std::string_view text);

/// Where segments come from. Addresses only need to be ordered and distinct.
class SegmentSource {
 public:
  virtual ~SegmentSource() = default;
  /// Returns the address of `bytes` fresh bytes, or 0 when there is no room.
  virtual std::uint64_t allocate(std::int64_t bytes) = 0;
  virtual void release(std::uint64_t address, std::int64_t bytes) = 0;
  /// Expandable segments: reserve a range of addresses, then map and unmap pages in it.
  virtual std::uint64_t reserve(std::int64_t bytes) = 0;
  virtual bool map(std::uint64_t address, std::int64_t bytes) = 0;
  virtual void unmap(std::uint64_t address, std::int64_t bytes) = 0;
};

/// Segments with no memory behind them: addresses only ever grow, up to `capacity_bytes` in use at a time.
class ArithmeticSegments final : public SegmentSource {
 public:
  explicit ArithmeticSegments(std::int64_t capacity_bytes = INT64_MAX) : capacity_bytes_(capacity_bytes) {}
  std::uint64_t allocate(std::int64_t bytes) override;
  void release(std::uint64_t address, std::int64_t bytes) override;
  std::uint64_t reserve(std::int64_t bytes) override;
  bool map(std::uint64_t address, std::int64_t bytes) override;
  void unmap(std::uint64_t address, std::int64_t bytes) override;
  std::int64_t used_bytes() const { return used_bytes_; }

 private:
  std::int64_t capacity_bytes_;
  std::int64_t used_bytes_ = 0;
  std::uint64_t next_address_ = std::uint64_t{1} << 40;
};

/// The readings PyTorch prints in its OutOfMemoryError ("Tried to allocate ...").
struct OutOfMemory {
  std::int64_t tried_bytes = 0;      // the segment asked for: what the message calls "tried to allocate"
  std::int64_t requested_bytes = 0;  // what the caller asked for
  std::int64_t allocated_bytes = 0;
  std::int64_t reserved_bytes = 0;
};

/// A piece of a segment as torch.cuda.memory_snapshot() shows it.
struct BlockView {
  std::uint64_t address = 0;
  std::int64_t bytes = 0;
  std::int64_t requested_bytes = 0;  // 0 when free
  bool allocated = false;
};
/// A run of mapped memory with its blocks in address order.
struct SegmentView {
  std::uint64_t address = 0;
  std::int64_t bytes = 0;
  std::int64_t stream = 0;
  bool small = false;
  bool expandable = false;
  std::vector<BlockView> blocks;
};

/// A count and the highest it has been since reset_peaks().
struct PeakCounter {
  std::int64_t now = 0;
  std::int64_t peak = 0;
  void add(std::int64_t delta) {
    now += delta;
    if (now > peak) peak = now;
  }
  /// add(delta), then add(-delta).
  void touch(std::int64_t delta) {
    if (now + delta > peak) peak = now + delta;
  }
};

/// The allocator of one device. Not for several threads at once. Block ids are reused after release.
class CachingAllocator {
 public:
  explicit CachingAllocator(SegmentSource& source, AllocatorSettings settings = {});
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  /// A block of at least `bytes` for work on `stream`; kNoBlock for 0 bytes, kOutOfMemory when there is
  /// no room. Throws Error when bytes < 0 or so big that rounding overflows.
  BlockId allocate(std::int64_t bytes, std::int64_t stream = 0);
  /// What a block of `bytes` on stream 0 charges, bytes, that is released before anything else happens: readings and
  /// peaks are those of allocate() and release(), which it stands for. Nothing, and nothing happens, where these have
  /// to be called.
  std::optional<std::int64_t> use(std::int64_t bytes);
  /// Returns a block to its pool, merged with free neighbours. kNoBlock is ignored.
  void release(BlockId block);
  /// torch.cuda.empty_cache(): gives every wholly free segment back (expandable: every wholly free page).
  void empty_cache();

  std::uint64_t address(BlockId block) const { return blocks_[block].address; }
  /// What the block charges to allocated_bytes(): its rounded size and any remainder too small to split off.
  std::int64_t charged_bytes(BlockId block) const { return blocks_[block].bytes; }

  std::int64_t allocated_bytes() const { return allocated_.now; }  // torch.cuda.memory_allocated()
  std::int64_t requested_bytes() const { return requested_.now; }  // memory_stats()["requested_bytes.all.current"]
  std::int64_t reserved_bytes() const { return reserved_.now; }    // torch.cuda.memory_reserved()
  std::int64_t peak_allocated_bytes() const { return allocated_.peak; }
  std::int64_t peak_requested_bytes() const { return requested_.peak; }
  std::int64_t peak_reserved_bytes() const { return reserved_.peak; }
  /// Free bytes in segments that are partly in use; 0 with expandable segments, as in PyTorch.
  std::int64_t inactive_split_bytes() const { return inactive_split_.now; }
  std::int64_t peak_inactive_split_bytes() const { return inactive_split_.peak; }
  void reset_peaks();  // torch.cuda.reset_peak_memory_stats()

  std::int64_t segment_count() const { return segment_count_; }  // cudaMalloc'ed ones; expandable ones do not count
  std::int64_t retry_count() const { return retry_count_; }      // num_alloc_retries: caches emptied for want of memory
  std::int64_t largest_free_bytes() const;                       // of all pools and streams
  const OutOfMemory& out_of_memory() const { return out_of_memory_; }
  const AllocatorSettings& settings() const { return settings_; }
  /// Every segment with its blocks, in address order.
  std::vector<SegmentView> segments() const;

 private:
  struct Pool {
    explicit Pool(std::vector<PoolBlock>& blocks) : free(blocks) {}
    FreeBlocks free;                // mapped and free
    std::vector<BlockId> unmapped;  // by address; expandable segments only
    std::int64_t stream = 0;
    bool small = false;
  };

  bool is_free(BlockId id) const { return id != kNoBlock && !blocks_[id].allocated && blocks_[id].mapped; }
  bool is_split(const PoolBlock& b) const { return b.previous != kNoBlock || b.next != kNoBlock; }
  bool collects_garbage() const {
    return settings_.garbage_collection_threshold > 0 && settings_.memory_limit_bytes != INT64_MAX;
  }

  std::int64_t rounded(std::int64_t bytes) const;
  std::int64_t segment_bytes(std::int64_t rounded_bytes) const;
  std::int64_t page_bytes(const Pool& pool) const;
  bool splits(const Pool& pool, std::int64_t bytes, std::int64_t rest) const;
  std::uint32_t pool_index(std::int64_t stream, bool small);
  std::uint32_t add_stream(std::int64_t stream);
  BlockId take_fit(Pool& pool, std::int64_t bytes);
  BlockId new_block(std::uint64_t address, std::int64_t bytes, std::uint32_t pool);
  void drop_block(BlockId id);
  void insert_free(BlockId id);
  BlockId split_front(BlockId id, std::int64_t bytes);

  // The slow half (allocator_segments.cpp): segments come and go.
  BlockId grow(std::uint32_t pool, std::int64_t bytes);
  BlockId add_segment(std::uint32_t pool, std::int64_t bytes);
  BlockId extend(std::uint32_t pool, std::int64_t bytes);
  BlockId find_extensible(std::uint32_t pool, std::int64_t bytes);
  std::int64_t expandable_bytes(BlockId id) const;
  BlockId map_front(BlockId id, std::int64_t bytes);
  void unmap_pages(BlockId id);
  void insert_unmapped(BlockId id);
  void erase_unmapped(BlockId id);
  void absorb_next(BlockId id);
  void release_segment(BlockId id);
  bool release_oversize(Pool& pool, std::int64_t bytes);
  void collect_garbage();

  SegmentSource& source_;
  AllocatorSettings settings_;
  bool default_rounding_, any_fit_;  // of the settings: sizes are multiples of 512; the smallest free block will do
  std::vector<PoolBlock> blocks_;
  BlockId spare_ = kNoBlock;           // dropped blocks, linked by `next`
  std::vector<Pool> pools_;            // 2 per stream: small, large
  std::vector<std::int64_t> streams_;  // streams_[i] has pools 2i and 2i + 1
  std::vector<std::uint64_t> ranges_;  // where each expandable segment begins, ascending
  PeakCounter allocated_, requested_, reserved_, inactive_split_;
  std::int64_t segment_count_ = 0, retry_count_ = 0, large_lookups_ = 0;
  OutOfMemory out_of_memory_;
};

}  // namespace gpuplan
