// The free memory of a device while blocks come and go where a recording says: how much each is charged.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "estimator/allocator/allocator.h"

namespace gpuplan {

class FollowedBlocks {
 public:
  /// The settings that a block's size depends on: max_split_size_mb, roundup_power2_divisions, expandable_segments.
  explicit FollowedBlocks(const AllocatorSettings& settings) : settings_(settings) {}
  std::int64_t rounded(std::int64_t bytes) const;
  /// `segment`: what nothing beside it is ever merged with, as cudaMalloc's; else pages of an expandable one.
  void add_memory(std::uint64_t address, std::int64_t bytes, bool segment);
  void remove_memory(std::uint64_t address, std::int64_t bytes);
  /// What is charged: the size rounded up, or all of the free block where its rest is too small to be split off.
  std::int64_t allocate(std::uint64_t address, std::int64_t bytes);
  void free(std::uint64_t address);
  std::optional<std::int64_t> largest_free() const;
  /// From here on nothing is known of free memory: sizes are rounded.
  void lose();
  bool lost() const { return lost_; }

 private:
  void insert(std::uint64_t address, std::int64_t bytes);
  bool is_split_off(std::int64_t rounded, std::int64_t rest) const;

  AllocatorSettings settings_;

  std::map<std::uint64_t, std::int64_t> free_;  // bytes by address
  std::set<std::uint64_t> borders_;             // of segments
  std::unordered_map<std::uint64_t, std::int64_t> charged_;
  bool lost_ = false;
};

}  // namespace gpuplan
