#include "validate/shadow/runtime/written.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace gpuplan::shadow {
namespace {

struct Write {
  std::size_t bytes;
  std::uint64_t age;     // Writes::age when it was written
  std::uint64_t number;  // of the writes, from 1
  bool watched;
};

struct Writes {
  std::mutex mutex;
  std::map<std::uintptr_t, Write> pieces;  // never overlapping
  std::uint64_t age = 0;                   // calls of forget_parts()
  std::uint64_t written = 0;
};

Writes& writes() {
  static auto* const instance = new Writes;
  return *instance;
}

std::vector<std::uintptr_t>& lost() {
  thread_local std::vector<std::uintptr_t> addresses;
  return addresses;
}

using Pieces = std::map<std::uintptr_t, Write>;

// The first piece that reaches into [begin, ...).
Pieces::iterator first_in(Pieces& pieces, std::uintptr_t begin) {
  auto piece = pieces.lower_bound(begin);
  if (piece == pieces.begin()) return piece;
  const auto before = std::prev(piece);
  return before->first + before->second.bytes > begin ? before : piece;
}

// Takes out every piece that overlaps [begin, end): what would be left of one is no longer one piece.
void cut(Pieces& pieces, std::uintptr_t begin, std::uintptr_t end) {
  auto piece = first_in(pieces, begin);
  while (piece != pieces.end() && piece->first < end) piece = pieces.erase(piece);
}

// cut(), keeping the addresses of those that are watched.
void lose(Pieces& pieces, std::uintptr_t begin, std::uintptr_t end) {
  constexpr std::size_t kMost = 4096;  // nobody asks
  auto piece = first_in(pieces, begin);
  while (piece != pieces.end() && piece->first < end) {
    if (piece->second.watched && lost().size() < kMost) lost().push_back(piece->first);
    piece = pieces.erase(piece);
  }
}

}  // namespace

std::uint64_t remember_written(const void* address, std::size_t bytes, bool watched) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  const std::lock_guard lock(writes().mutex);
  cut(writes().pieces, begin, begin + bytes);
  const std::uint64_t number = ++writes().written;
  writes().pieces.emplace(begin, Write{bytes, writes().age, number, watched});
  return number;
}

bool holds_write(const void* address, std::uint64_t write) {
  const std::lock_guard lock(writes().mutex);
  const auto piece = writes().pieces.find(reinterpret_cast<std::uintptr_t>(address));
  return piece != writes().pieces.end() && piece->second.number == write;
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
  for (const std::uintptr_t address : addresses) {
    lose(writes().pieces, address, (address / kBlock + 1) * kBlock);
  }
}

bool has_lost_writes() { return !lost().empty(); }

std::vector<std::uintptr_t> lost_writes() { return std::exchange(lost(), {}); }

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
