#include "estimator/allocator/driver_addresses.h"

#include <algorithm>
#include <iterator>

namespace gpuplan {
namespace {

constexpr std::uint64_t kPage = std::uint64_t{2} << 20;
constexpr std::uint64_t kWindow = std::uint64_t{32} << 20;
// What the two windows of a new context have left.
constexpr std::uint64_t kUpperGap = std::uint64_t{24} << 20, kLowerGap = std::uint64_t{2} << 20;

std::uint64_t up_to(std::uint64_t bytes, std::uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

std::uint64_t pages(std::int64_t bytes) {
  return up_to(static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 1)), kPage);
}

std::size_t class_of(std::uint64_t bytes) { return static_cast<std::size_t>(std::min(bytes, kWindow) / kPage); }

}  // namespace

DriverAddresses::DriverAddresses(std::uint64_t top, std::uint64_t bottom) : top_(top - 2 * kWindow), bottom_(bottom) {
  for (const std::uint64_t gap : {kUpperGap, kLowerGap}) {
    top -= kWindow;
    windows_[top] = {kWindow, kWindow - gap};
    add_gap(top + kWindow - gap, gap);
  }
}

std::uint64_t DriverAddresses::place(std::int64_t bytes) {
  const std::uint64_t wanted = pages(bytes);
  const std::uint64_t address = lowest_gap(wanted);
  if (address == 0) return add_window(up_to(wanted, kWindow), wanted);
  const auto gap = gaps_.find(address);
  const std::uint64_t left = gap->second - wanted;
  remove_gap(gap);
  std::prev(windows_.upper_bound(address))->second.used += wanted;
  if (left > 0) add_gap(address + wanted, left);
  return address;
}

std::uint64_t DriverAddresses::place_alone(std::int64_t bytes) {
  const std::uint64_t wanted = pages(bytes);
  const std::uint64_t address = add_window(up_to(wanted, kWindow), wanted);
  if (const auto gap = gaps_.find(address + wanted); address != 0 && gap != gaps_.end()) remove_gap(gap);
  return address;
}

void DriverAddresses::release(std::uint64_t address, std::int64_t bytes) {
  const auto window = std::prev(windows_.upper_bound(address));
  const std::uint64_t end = window->first + window->second.bytes;
  const std::uint64_t freed = std::min(std::min(pages(bytes), end - address), window->second.used);
  window->second.used -= freed;
  if (window->second.used > 0 || window->first >= top_) return add_gap(address, freed);
  for (auto gap = gaps_.lower_bound(window->first); gap != gaps_.end() && gap->first < end;) gap = remove_gap(gap);
  windows_.erase(window);
}

std::uint64_t DriverAddresses::add_window(std::uint64_t bytes, std::uint64_t used) {
  const std::uint64_t end = windows_.begin()->first;
  if (bytes > end - bottom_) return 0;
  windows_[end - bytes] = {bytes, used};
  if (used < bytes) add_gap(end - bytes + used, bytes - used);
  return end - bytes;
}

// 0: there is none.
std::uint64_t DriverAddresses::lowest_gap(std::uint64_t bytes) const {
  std::uint64_t lowest = 0;
  for (std::size_t c = class_of(bytes); c < gaps_by_pages_.size(); ++c)
    for (const std::uint64_t address : gaps_by_pages_[c]) {
      if (lowest != 0 && address > lowest) break;
      if (gaps_.at(address) < bytes) continue;
      lowest = address;
      break;
    }
  return lowest;
}

void DriverAddresses::add_gap(std::uint64_t address, std::uint64_t bytes) {
  const auto window = std::prev(windows_.upper_bound(address));
  auto after = gaps_.lower_bound(address);
  if (after != gaps_.end() && after->first == address + bytes && after->first < window->first + window->second.bytes) {
    bytes += after->second;
    after = remove_gap(after);
  }
  if (after != gaps_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == address && before->first >= window->first) {
      address = before->first;
      bytes += before->second;
      remove_gap(before);
    }
  }
  gaps_[address] = bytes;
  gaps_by_pages_[class_of(bytes)].insert(address);
}

DriverAddresses::Gaps::iterator DriverAddresses::remove_gap(Gaps::iterator gap) {
  gaps_by_pages_[class_of(gap->second)].erase(gap->first);
  return gaps_.erase(gap);
}

}  // namespace gpuplan
