// Dictionaries and lists of a pickle as entries of a Snapshot's tables, each frame, stack and word once.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "estimator/snapshot/pickle_input.h"
#include "estimator/snapshot/pickle_values.h"
#include "estimator/snapshot/snapshot.h"

namespace gpuplan {

class SnapshotTables {
 public:
  explicit SnapshotTables(const PickleInput& input);

  std::uint32_t word(std::string_view text);
  std::uint32_t stack(std::span<const std::uint32_t> frames);
  /// What the keys and values of a dictionary are, one after the other. Fails where the kind of a value is none that a
  /// snapshot has there.
  PickleValue dictionary(std::span<const PickleValue> pairs);
  /// Whether what is of this kind is an entry of a table of its own, each in one list.
  static bool has_entries(PickleKind kind);
  /// Of consecutive entries of `kind`'s table: a list of them.
  PickleValue list(PickleKind kind, std::uint32_t first, std::uint32_t count);
  /// When the pickle has ended.
  Snapshot take(std::string name);

 private:
  struct Range {
    std::uint32_t first = 0, count = 0;
  };
  struct WordHash {
    using is_transparent = void;
    const std::vector<std::string>* words;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
    std::size_t operator()(std::uint32_t word) const { return (*this)(std::string_view((*words)[word])); }
  };
  struct WordEqual {
    using is_transparent = void;
    const std::vector<std::string>* words;
    std::string_view text(std::string_view of) const { return of; }
    std::string_view text(std::uint32_t word) const { return (*words)[word]; }
    bool operator()(auto a, auto b) const { return text(a) == text(b); }
  };
  struct FrameHash {
    std::size_t operator()(const SnapshotFrame& f) const {
      return (std::size_t{f.file} * 0x9e3779b97f4a7c15U ^ f.name) * 0x9e3779b97f4a7c15U ^
             static_cast<std::uint32_t>(f.line);
    }
  };

  PickleValue frame(std::span<const PickleValue> pairs);
  PickleValue event(std::span<const PickleValue> pairs);
  PickleValue block(std::span<const PickleValue> pairs);
  PickleValue segment(std::span<const PickleValue> pairs);
  PickleValue mark(std::span<const PickleValue> pairs);
  PickleValue settings(std::span<const PickleValue> pairs);
  PickleValue whole(std::span<const PickleValue> pairs);
  std::int64_t integer(const PickleValue& key, const PickleValue& value) const;
  std::int64_t time(const PickleValue& key, const PickleValue& value) const;
  std::uint32_t text(const PickleValue& key, const PickleValue& value) const;
  std::uint32_t stack(const PickleValue& key, const PickleValue& value) const;
  Range range(const PickleValue& key, const PickleValue& value, PickleKind kind) const;
  [[noreturn]] void fail(const PickleValue& key, const std::string& expected) const;
  // Of whatever has a size: sums of them fit in 64 bits.
  std::int64_t counted(std::int64_t bytes);

  const PickleInput& input_;
  Snapshot made_;
  std::unordered_set<std::uint32_t, WordHash, WordEqual> words_;
  std::unordered_map<SnapshotFrame, std::uint32_t, FrameHash> frames_;
  std::unordered_multimap<std::uint64_t, std::uint32_t> stacks_;  // by a hash of their frames
  std::unordered_map<std::uint64_t, std::uint16_t> streams_;
  std::vector<Range> ranges_;  // of lists
  std::optional<Range> segments_, traces_, marks_;
  std::int64_t all_bytes_ = 0;
};

}  // namespace gpuplan
