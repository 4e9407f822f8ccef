// PyTorch's caching allocator, rule for rule, on top of any source of segments: fake addresses when planning,
// cudaMalloc when validating. Rules: c10/cuda/CUDACachingAllocator.cpp and c10/core/AllocatorConfig.h;
// private pools of CUDA graphs and record_stream are not modelled. All sizes are bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "estimator/allocator/block_allocator.h"
#include "estimator/allocator/driver_addresses.h"
#include "estimator/allocator/free_blocks.h"
#include "estimator/allocator/pool_block.h"
#include "estimator/spec/run_config.h"

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
  SegmentOrder segment_order = SegmentOrder::rising;
};

/// Parses PYTORCH_ALLOC_CONF ("expandable_segments:True,max_split_size_mb:32"). Throws Error (kind usage) with
/// the key's nearest spelling on what PyTorch would refuse.
AllocatorSettings parse_alloc_conf(std::string_view text);

/// What is charged for a request at least: a multiple of 512 bytes, or of roundup_power2_divisions.
std::int64_t rounded_request(std::int64_t bytes, const AllocatorSettings& settings);

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

/// Segments with no memory behind them, up to `capacity_bytes` in use at a time.
class ArithmeticSegments final : public SegmentSource {
 public:
  explicit ArithmeticSegments(std::int64_t capacity_bytes = INT64_MAX, SegmentOrder order = SegmentOrder::rising)
      : capacity_bytes_(capacity_bytes), order_(order) {}
  std::uint64_t allocate(std::int64_t bytes) override;
  void release(std::uint64_t address, std::int64_t bytes) override;
  std::uint64_t reserve(std::int64_t bytes) override;
  bool map(std::uint64_t address, std::int64_t bytes) override;
  void unmap(std::uint64_t address, std::int64_t bytes) override;
  std::int64_t used_bytes() const { return used_bytes_; }

 private:
  std::int64_t capacity_bytes_;
  std::int64_t used_bytes_ = 0;
  SegmentOrder order_;
  std::uint64_t next_address_ = std::uint64_t{1} << 40;                        // of rising ones
  DriverAddresses addresses_{std::uint64_t{1} << 62, std::uint64_t{1} << 40};  // of the others
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

/// The allocator of one device.
class CachingAllocator : public BlockAllocator {
 public:
  explicit CachingAllocator(SegmentSource& source, AllocatorSettings settings = {});

  BlockId allocate(std::int64_t bytes, std::int64_t stream = 0) final;
  std::optional<std::int64_t> use(std::int64_t bytes) final;
  /// Returns a block to its pool, merged with free neighbours.
  void release(BlockId block) override;
  void release_later(BlockId block) override;
  std::uint64_t address(BlockId block) const final { return blocks_[block].address; }
  std::int64_t charged_bytes(BlockId block) const final { return blocks_[block].bytes; }
  /// torch.cuda.empty_cache(): gives every wholly free segment back (expandable: every wholly free page).
  void empty_cache() override;

  std::int64_t largest_free_bytes() const;  // of all pools and streams
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
  void process_events();

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
  std::vector<BlockId> waiting_;       // of release_later()
  std::vector<Pool> pools_;            // 2 per stream: small, large
  std::vector<std::int64_t> streams_;  // streams_[i] has pools 2i and 2i + 1
  std::vector<std::uint64_t> ranges_;  // where each expandable segment begins, ascending
  std::int64_t large_lookups_ = 0;
};

}  // namespace gpuplan
