#include "estimator/snapshot/followed_blocks.h"

#include <algorithm>
#include <iterator>

#include "estimator/allocator/allocator_constants.h"

namespace gpuplan {

std::int64_t FollowedBlocks::rounded(std::int64_t bytes) const {
  return std::max(kMinBlockBytes, rounded_request(bytes, settings_));
}

// should_split().
bool FollowedBlocks::is_split_off(std::int64_t rounded, std::int64_t rest) const {
  if (rounded <= kSmallBytes || settings_.expandable_segments) return rest >= kMinBlockBytes;
  return rounded < settings_.max_split_bytes && rest > kSmallBytes;
}

void FollowedBlocks::lose() {
  lost_ = true;
  free_.clear();
  borders_.clear();
  charged_.clear();
}

void FollowedBlocks::insert(std::uint64_t address, std::int64_t bytes) {
  auto after = free_.lower_bound(address);
  if (after != free_.end() && after->first == address + static_cast<std::uint64_t>(bytes) &&
      !borders_.contains(after->first)) {
    bytes += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin() && !borders_.contains(address)) {
    const auto before = std::prev(after);
    if (before->first + static_cast<std::uint64_t>(before->second) == address) {
      before->second += bytes;
      return;
    }
  }
  free_.emplace_hint(after, address, bytes);
}

void FollowedBlocks::add_memory(std::uint64_t address, std::int64_t bytes, bool segment) {
  if (lost_) return;
  if (segment) borders_.insert({address, address + static_cast<std::uint64_t>(bytes)});
  insert(address, bytes);
}

void FollowedBlocks::remove_memory(std::uint64_t address, std::int64_t bytes) {
  if (lost_) return;
  const auto next = free_.upper_bound(address);
  if (next == free_.begin()) return lose();
  const auto at = std::prev(next);
  const std::uint64_t end = address + static_cast<std::uint64_t>(bytes),
                      free_end = at->first + static_cast<std::uint64_t>(at->second);
  if (end > free_end) return lose();
  if (free_end > end) free_.emplace(end, static_cast<std::int64_t>(free_end - end));
  if (at->first == address)
    free_.erase(at);
  else
    at->second = static_cast<std::int64_t>(address - at->first);
}

std::int64_t FollowedBlocks::allocate(std::uint64_t address, std::int64_t bytes) {
  const std::int64_t rounded = this->rounded(bytes);
  if (lost_) return rounded;
  const auto at = free_.find(address);
  if (at == free_.end() || at->second < rounded) {
    lose();
    return rounded;
  }
  const std::int64_t rest = at->second - rounded;
  const std::int64_t charged = is_split_off(rounded, rest) ? rounded : at->second;
  free_.erase(at);
  if (charged == rounded && rest > 0) free_.emplace(address + static_cast<std::uint64_t>(rounded), rest);
  charged_[address] = charged;
  return charged;
}

void FollowedBlocks::free(std::uint64_t address) {
  if (lost_) return;
  const auto at = charged_.find(address);
  if (at == charged_.end()) return lose();
  const std::int64_t bytes = at->second;
  charged_.erase(at);
  insert(address, bytes);
}

std::optional<std::int64_t> FollowedBlocks::largest_free() const {
  if (lost_) return std::nullopt;
  std::int64_t largest = 0;
  for (const auto& [address, bytes] : free_) largest = std::max(largest, bytes);
  return largest;
}

}  // namespace gpuplan
