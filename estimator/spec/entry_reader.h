// The entries of a `layers:` list, from YAML to syntax.
#pragma once

#include <span>
#include <string>
#include <unordered_map>

#include "estimator/spec/syntax.h"

namespace gpuplan {

/// From a block's name to its place among the blocks.
using BlockIndex = std::unordered_map<std::string, std::size_t>;

class EntryReader {
 public:
  /// `blocks` are all the blocks of the spec, their params read, their layers perhaps not yet; `names`
  /// is what expressions may use. All must outlive the reader.
  EntryReader(std::span<const BlockSyntax> blocks, const BlockIndex& index, const Names& names)
      : blocks_(blocks), index_(index), names_(names) {}

  /// A list of entries; may be empty.
  ListSyntax list(const YamlNode& node, std::string_view what) const;
  /// A single call, `{op: ...}` or scalar; where only a layer may stand.
  CallSyntax call(const YamlNode& node) const;

 private:
  EntrySyntax entry(const YamlNode& node) const;
  void attributes(const YamlNode& map, EntrySyntax& entry) const;
  SequentialSyntax sequential(const YamlNode& map, const YamlNode& layers) const;
  void named(const YamlNode& key, const YamlNode& value, EntrySyntax& entry) const;
  void modifier(const YamlNode& key, const YamlNode& value, EntrySyntax& entry) const;
  void from(const YamlNode& node, EntrySyntax& entry) const;

  CallSyntax operation(const YamlNode& map) const;
  void block(const YamlNode& map, EntrySyntax& entry) const;
  std::vector<GivenParam> given(const YamlNode& map, std::size_t block, std::string_view what) const;
  ResidualSyntax residual(const YamlNode& node) const;
  ParallelSyntax parallel(const YamlNode& node) const;
  ParallelSyntax::Branch branch(const YamlNode& node) const;

  std::span<const BlockSyntax> blocks_;
  const BlockIndex& index_;
  const Names& names_;
};

}  // namespace gpuplan
