#include "estimator/allocator/sorted_blocks.h"

#include <algorithm>

namespace gpuplan {

bool SortedBlocks::first(Position& at) const {
  at = {};
  return !empty();
}

bool SortedBlocks::last(Position& at) const {
  at.chunk = chunks_.size() - 1;
  at.index = chunks_.back()->count - 1;
  return !empty();
}

std::size_t SortedBlocks::search_chunks(std::int64_t bytes, std::uint64_t address) const {
  // The first separator bounds nothing: what is smaller than all goes to the first chunk.
  const auto after = std::partition_point(separators_.begin() + 1, separators_.end(), [&](const Key& s) {
    return before(s, bytes, address) || (s.bytes == bytes && s.address == address);
  });
  return static_cast<std::size_t>(after - separators_.begin()) - 1;
}

bool SortedBlocks::enter_next_chunk(Position& at) const {
  if (at.chunk + 1 == chunks_.size()) return false;
  ++at.chunk;
  at.index = 0;
  return true;
}

void SortedBlocks::insert_into_full(std::size_t chunk, const Entry& entry) {
  constexpr std::size_t kHalf = kChunkEntries / 2;
  const Entry& middle = chunks_[chunk]->entries[kHalf];
  add_chunk(chunk + 1, {middle.bytes, middle.address});
  Chunk& lower = *chunks_[chunk];
  Chunk& upper = *chunks_[chunk + 1];
  upper.count = kChunkEntries - kHalf;
  move_entries(upper.entries.data(), lower.entries.data() + kHalf, upper.count);
  lower.count = kHalf;
  insert(entry);
}

void SortedBlocks::add_chunk(std::size_t at, Key separator) {
  chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(at), std::make_unique<Chunk>());
  separators_.insert(separators_.begin() + static_cast<std::ptrdiff_t>(at), separator);
}

void SortedBlocks::remove_chunk(std::size_t at) {
  chunks_.erase(chunks_.begin() + static_cast<std::ptrdiff_t>(at));
  separators_.erase(separators_.begin() + static_cast<std::ptrdiff_t>(at));
}

}  // namespace gpuplan
