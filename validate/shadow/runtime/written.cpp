#include "validate/shadow/runtime/written.h"

#include <cstdint>
#include <map>
#include <mutex>

namespace gpuplan::shadow {
namespace {

struct Write {
  std::size_t bytes;
  std::uint64_t age;  // Writes::age when it was written
};

struct Writes {
  std::mutex mutex;
  std::map<std::uintptr_t, Write> pieces;  // never overlapping
  std::uint64_t age = 0;                   // calls of forget_parts()
};

Writes& writes() {
  static auto* const instance = new Writes;
  return *instance;
}

// Takes out of every piece what overlaps [begin, end). What is left of a piece is no longer one piece: it goes too.
void cut(std::map<std::uintptr_t, Write>& pieces, std::uintptr_t begin, std::uintptr_t end) {
  auto piece = pieces.lower_bound(begin);
  if (piece != pieces.begin()) {
    const auto before = std::prev(piece);
    if (before->first + before->second.bytes > begin) piece = before;
  }
  while (piece != pieces.end() && piece->first < end) piece = pieces.erase(piece);
}

}  // namespace

void remember_written(const void* address, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  const std::lock_guard lock(writes().mutex);
  cut(writes().pieces, begin, begin + bytes);
  writes().pieces.emplace(begin, Write{bytes, writes().age});
}

void forget_written(const void* address, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  const std::lock_guard lock(writes().mutex);
  cut(writes().pieces, begin, begin + bytes);
}

void forget_touched(std::span<const std::uintptr_t> addresses) {
  constexpr std::uintptr_t kBlock = 512;  // c10/cuda/CUDACachingAllocator.cpp: kMinBlockSize
  if (addresses.empty()) return;
  const std::lock_guard lock(writes().mutex);
  if (writes().pieces.empty()) return;
  for (const std::uintptr_t address : addresses) cut(writes().pieces, address, (address / kBlock + 1) * kBlock);
}

void forget_parts() {
  const std::lock_guard lock(writes().mutex);
  ++writes().age;
}

bool is_known(const void* address, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  const std::lock_guard lock(writes().mutex);
  auto piece = writes().pieces.upper_bound(begin);
  if (piece == writes().pieces.begin()) return false;
  --piece;
  const Write& write = piece->second;
  if (piece->first == begin && write.bytes == bytes) return true;
  const bool inside = begin + bytes <= piece->first + write.bytes;
  if (inside && write.age == writes().age) return true;
  if (piece->first != begin) return false;
  std::uintptr_t at = begin;  // pieces one after another, as a gather writes them
  for (; piece != writes().pieces.end() && piece->first == at && at < begin + bytes; ++piece) at += piece->second.bytes;
  return at == begin + bytes;
}

}  // namespace gpuplan::shadow
