// A YAML document as a tree of nodes that know where they stand in their file: yaml-cpp's parser with
// its holes closed. yaml-cpp 0.7 keeps the first of two equal keys silently, reads a quoted 'no' as
// false, ignores merge keys and follows aliases without bound; here a duplicate key, a merge key, a tag,
// a second document, a tab in the indentation, a control character and text that is not UTF-8 are
// errors, scalars stay text (quoted or plain), and aliases count in full towards kMaxYamlNodes.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/error.h"

namespace gpuplan {

struct YamlNode {
  enum class Kind : std::uint8_t { null, scalar, list, map };

  Kind kind = Kind::null;
  bool quoted = false;    // "..." or '...' or a block scalar: text, whatever it looks like
  bool in_flow = false;   // inside [ ] or { }, where a comma ends a plain scalar
  bool verbatim = false;  // the scalar's bytes stand in the source as they are
  SourceMark mark;
  std::size_t begin = 0;                  // offset of the scalar's first byte in the source
  std::string text;                       // of a scalar
  std::vector<const YamlNode*> children;  // a list's items; a map's keys and values in turn

  /// The value of `key` in a map, or null.
  const YamlNode* find(std::string_view key) const;
  /// The place of text[from, from + length).
  SourceMark mark_at(std::size_t from, std::size_t length) const;
};

/// Owns nodes; their addresses are stable.
using YamlArena = std::deque<YamlNode>;

/// What a file is, for messages.
struct DocumentWords {
  std::string_view name = "a model spec";
  std::string_view help = "it begins with gpuplan: 1, then name:, input: and layers:";
};

/// The root of the only document in `source`, a map. Throws Error at the place that is wrong.
const YamlNode& parse_yaml(const Source& source, YamlArena& arena, const DocumentWords& words = {});

/// "a list", "a map", "\"text\"", "nothing": for messages.
std::string describe(const YamlNode& node);

}  // namespace gpuplan
