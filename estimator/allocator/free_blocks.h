// The free blocks of one pool and stream in order of size and then of address, the order in which PyTorch's
// best fit looks at them (BlockComparatorSize in c10/cuda/CUDACachingAllocator.cpp).
//
// Blocks are binned by size. A bitmap has the bins in use, and each bin is an intrusive sorted list. Below 2 MiB a bin
// is one size; above, 1/128 of a power of two. A training step has some tens of free blocks, and most bins hold a few,
// so every operation is a handful of loads: a sweep takes 0.6 of the time that it takes with one sorted array
// (tests/bench/RESULTS.md). A list that grows long becomes a std::set.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "estimator/allocator/pool_block.h"

namespace gpuplan {

class FreeBlocks {
 public:
  /// `blocks` is where ids lead; it may grow, and must outlive this.
  explicit FreeBlocks(std::vector<PoolBlock>& blocks)
      : blocks_(&blocks), heads_(std::make_unique_for_overwrite<BlockId[]>(kBins)) {}

  /// The first block of at least `bytes`, or kNoBlock. Not const: a long list may be reorganized.
  BlockId lower_bound(std::int64_t bytes) {
    const std::size_t bin = bin_of(bytes);
    if (has(bin)) {
      const BlockId head = heads_[bin];
      if (head < kFirstSpill && block(head).bytes >= bytes) return head;
      if (const BlockId found = search_bin(bin, bytes); found != kNoBlock) return found;
    }
    return first_from(bin + 1);
  }
  /// The same, and erases it.
  BlockId take(std::int64_t bytes) {
    std::size_t bin = bin_of(bytes);
    if (has(bin)) {
      const BlockId head = heads_[bin];
      if (head < kFirstSpill && block(head).bytes >= bytes) return take_head(bin);
      if (const BlockId found = search_bin(bin, bytes); found != kNoBlock) {
        erase(found);
        return found;
      }
    }
    bin = first_bin_from(bin + 1);
    if (bin == kBins) return kNoBlock;
    if (heads_[bin] < kFirstSpill) return take_head(bin);
    const BlockId found = first_in(bin);
    erase_spilled(bin, found);
    return found;
  }
  /// The block after this one, the first and the last; kNoBlock where there is none.
  BlockId next(BlockId id) const;
  BlockId first() const { return first_from(0); }
  BlockId last() const;

  /// Lists a block by its size and address, which may not change before erase().
  void insert(BlockId id) {
    PoolBlock& b = block(id);
    const std::size_t bin = bin_of(b.bytes);
    if (has(bin)) return insert_behind(bin, id);
    mark(bin);
    heads_[bin] = id;
    b.free_previous = id;
    b.free_next = kNoBlock;
  }

  void erase(BlockId id) {
    const PoolBlock& b = block(id);
    const std::size_t bin = bin_of(b.bytes);
    const BlockId head = heads_[bin];
    if (head == id) return (void)take_head(bin);
    if (head >= kFirstSpill) return erase_spilled(bin, id);
    block(b.free_previous).free_next = b.free_next;
    block(b.free_next == kNoBlock ? head : b.free_next).free_previous = b.free_previous;
  }

 private:
  // In units of 512 bytes: one bin for each size below 2^12, then 2^7 for each power of two up to 2^47.
  static constexpr int kExactLog2 = 12, kStepsLog2 = 7, kMaxLog2 = 47;
  static constexpr std::size_t kExact = std::size_t{1} << kExactLog2, kSteps = std::size_t{1} << kStepsLog2;
  static constexpr std::size_t kBins = kExact + (kMaxLog2 - kExactLog2 + 1) * kSteps;
  static constexpr std::size_t kWords = (kBins + 63) / 64, kSummaryWords = (kWords + 63) / 64;
  static constexpr int kLongWalk = 16;  // a list walked further becomes a set
  static constexpr BlockId kFirstSpill = UINT32_MAX - (1U << 16);

  static std::size_t bin_of(std::int64_t bytes) {
    const auto units = static_cast<std::size_t>(bytes) >> 9;
    if (units < kExact) return units;
    const auto log2 = static_cast<std::size_t>(63 - std::countl_zero(units));
    return kExact + (log2 - kExactLog2) * kSteps + ((units >> (log2 - kStepsLog2)) & (kSteps - 1));
  }
  static bool before(const PoolBlock& a, const PoolBlock& b) {
    return a.bytes < b.bytes || (a.bytes == b.bytes && a.address < b.address);
  }
  PoolBlock& block(BlockId id) const { return (*blocks_)[id]; }

  bool has(std::size_t bin) const { return (used_[bin / 64] >> (bin % 64) & 1) != 0; }
  void mark(std::size_t bin) {
    used_[bin / 64] |= std::uint64_t{1} << (bin % 64);
    summary_[bin / 4096] |= std::uint64_t{1} << (bin / 64 % 64);
  }
  void unmark(std::size_t bin) {
    used_[bin / 64] &= ~(std::uint64_t{1} << (bin % 64));
    if (used_[bin / 64] == 0) summary_[bin / 4096] &= ~(std::uint64_t{1} << (bin / 64 % 64));
  }
  // The first bin in use from this one on; kBins where there is none.
  std::size_t first_bin_from(std::size_t bin) const {
    const std::uint64_t rest = bin < kBins ? used_[bin / 64] >> (bin % 64) : 0;
    if (rest != 0) return bin + static_cast<std::size_t>(std::countr_zero(rest));
    const std::size_t word = bin / 64 + 1;
    if (word >= kWords) return kBins;
    std::size_t s = word / 64;
    std::uint64_t words = summary_[s] >> (word % 64) << (word % 64);
    while (words == 0) {
      if (++s == kSummaryWords) return kBins;
      words = summary_[s];
    }
    const std::size_t found = s * 64 + static_cast<std::size_t>(std::countr_zero(words));
    return found * 64 + static_cast<std::size_t>(std::countr_zero(used_[found]));
  }
  // The first block in a bin from this one on.
  BlockId first_from(std::size_t bin) const {
    const std::size_t found = first_bin_from(bin);
    return found == kBins ? kNoBlock : first_in(found);
  }
  // Takes the first block out of a list.
  BlockId take_head(std::size_t bin) {
    const BlockId head = heads_[bin], next = block(head).free_next;
    if (next == kNoBlock) {
      unmark(bin);
    } else {
      heads_[bin] = next;
      block(next).free_previous = block(head).free_previous;
    }
    return head;
  }
  BlockId first_in(std::size_t bin) const {
    const BlockId head = heads_[bin];
    return head < kFirstSpill ? head : spill_of(bin).begin()->block;
  }

  // Blocks of a list that became too long for one.
  struct Spilled {
    std::int64_t bytes = 0;
    std::uint64_t address = 0;
    BlockId block = 0;
    bool operator<(const Spilled& other) const {
      return std::tie(bytes, address) < std::tie(other.bytes, other.address);
    }
  };
  using Spill = std::set<Spilled>;
  Spill& spill_of(std::size_t bin) { return spills_[heads_[bin] - kFirstSpill]; }
  const Spill& spill_of(std::size_t bin) const { return spills_[heads_[bin] - kFirstSpill]; }
  Spilled spilled(BlockId id) const { return {block(id).bytes, block(id).address, id}; }

  BlockId search_bin(std::size_t bin, std::int64_t bytes);
  void insert_behind(std::size_t bin, BlockId id);
  void erase_spilled(std::size_t bin, BlockId id);
  void spill(std::size_t bin);

  std::vector<PoolBlock>* blocks_;
  // Of the bins in use: the first block, whose free_previous is the last one; or kFirstSpill + i for spills_[i].
  std::unique_ptr<BlockId[]> heads_;
  std::array<std::uint64_t, kWords> used_{};
  std::array<std::uint64_t, kSummaryWords> summary_{};
  std::vector<Spill> spills_;
};

}  // namespace gpuplan
