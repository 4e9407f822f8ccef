// Very many free blocks in order of size and then of address: a sorted array cut into chunks of at most
// kChunkEntries with a separator each. Every operation is a binary search and the move of at most one
// chunk.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "estimator/allocator/pool_block.h"

namespace gpuplan {

class SortedBlocks {
 public:
  struct Entry {
    std::int64_t bytes = 0;
    std::uint64_t address = 0;
    BlockId block = 0;
  };
  /// Where an entry is, until the next change.
  struct Position {
    std::size_t chunk = 0;
    std::size_t index = 0;
  };

  SortedBlocks() { add_chunk(0, {}); }

  bool empty() const { return chunks_.size() == 1 && chunks_[0]->count == 0; }
  const Entry& operator[](Position at) const { return chunks_[at.chunk]->entries[at.index]; }

  /// Finds the first entry that is not before (bytes, address); false when there is none.
  bool lower_bound(std::int64_t bytes, std::uint64_t address, Position& at) const {
    at.chunk = chunk_of(bytes, address);
    at.index = index_in(*chunks_[at.chunk], bytes, address);
    return at.index < chunks_[at.chunk]->count || enter_next_chunk(at);
  }
  /// Steps to the next entry; false at the end.
  bool advance(Position& at) const { return ++at.index < chunks_[at.chunk]->count || enter_next_chunk(at); }
  /// The first and the last entry; false when there is none.
  bool first(Position& at) const;
  bool last(Position& at) const;

  void insert(const Entry& entry) {
    const std::size_t c = chunk_of(entry.bytes, entry.address);
    Chunk& chunk = *chunks_[c];
    if (chunk.count == kChunkEntries) return insert_into_full(c, entry);
    const std::size_t i = index_in(chunk, entry.bytes, entry.address);
    move_entries(&chunk.entries[i + 1], &chunk.entries[i], chunk.count - i);
    chunk.entries[i] = entry;
    ++chunk.count;
  }

  void erase(Position at) {
    Chunk& chunk = *chunks_[at.chunk];
    --chunk.count;
    move_entries(&chunk.entries[at.index], &chunk.entries[at.index + 1], chunk.count - at.index);
    if (chunk.count == 0 && chunks_.size() > 1) remove_chunk(at.chunk);
  }

  /// Erases the entry of these bytes and address, which must be there.
  void erase(std::int64_t bytes, std::uint64_t address) {
    Position at;
    lower_bound(bytes, address, at);
    erase(at);
  }

 private:
  static constexpr std::size_t kChunkEntries = 128;
  struct Chunk {
    std::size_t count = 0;
    std::array<Entry, kChunkEntries> entries;
  };
  struct Key {
    std::int64_t bytes = 0;
    std::uint64_t address = 0;
  };

  template <class A>
  static bool before(const A& a, std::int64_t bytes, std::uint64_t address) {
    return a.bytes < bytes || (a.bytes == bytes && a.address < address);
  }
  static void move_entries(Entry* to, const Entry* from, std::size_t count) {
    std::memmove(to, from, count * sizeof(Entry));
  }

  static std::size_t index_in(const Chunk& chunk, std::int64_t bytes, std::uint64_t address) {
    const Entry* base = chunk.entries.data();
    std::size_t n = chunk.count;
    if (n == 0) return 0;
    while (n > 1) {
      const std::size_t half = n / 2;
      base += before(base[half - 1], bytes, address) ? half : 0;
      n -= half;
    }
    return static_cast<std::size_t>(base - chunk.entries.data()) + (before(*base, bytes, address) ? 1U : 0U);
  }
  std::size_t chunk_of(std::int64_t bytes, std::uint64_t address) const {
    return chunks_.size() == 1 ? 0 : search_chunks(bytes, address);
  }

  std::size_t search_chunks(std::int64_t bytes, std::uint64_t address) const;
  bool enter_next_chunk(Position& at) const;
  void insert_into_full(std::size_t chunk, const Entry& entry);
  void add_chunk(std::size_t at, Key separator);
  void remove_chunk(std::size_t at);

  // Entries of chunk i are >= separators_[i] and < separators_[i + 1]. Only a sole chunk may be empty.
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<Key> separators_;
};

}  // namespace gpuplan
