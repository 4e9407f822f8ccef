#include <algorithm>

#include "estimator/spec/yaml.h"

namespace gpuplan {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
  for (std::size_t i = 0; i + 1 < children.size(); i += 2)
    if (children[i]->text == key) return children[i + 1];
  return nullptr;
}

SourceMark YamlNode::mark_at(std::size_t from, std::size_t length) const {
  SourceMark out = mark;
  if (mark.source == nullptr) return out;
  const std::string_view source = mark.source->text;
  std::size_t at = begin;
  if (verbatim) {
    at += from;
    const std::size_t opening = mark.length > static_cast<int>(text.size()) ? 1 : 0;
    out.column += static_cast<int>(from + opening);
  } else if (!quoted) {
    // A plain scalar over several lines: yaml-cpp folds each line break and the blanks around it into
    // one space, and n + 1 line breaks into n newlines.
    std::size_t line_begin = at - static_cast<std::size_t>(mark.column - 1);
    for (std::size_t i = 0; i < from && at < source.size(); ++i) {
      const std::size_t next = std::min(source.find_first_not_of(kBlanks, at), source.size());
      const bool folded =
          (text[i] == ' ' || text[i] == '\n') && source.substr(at, next - at).find('\n') != std::string_view::npos;
      if (!folded) {
        ++at;
        continue;
      }
      for (; at < next; ++at)
        if (source[at] == '\n') {
          ++out.line;
          line_begin = at + 1;
        }
      while (i + 1 < from && text[i] == '\n' && text[i + 1] == '\n') ++i;
    }
    out.column = static_cast<int>(at - line_begin) + 1;
  } else {
    return out;
  }
  out.length = static_cast<int>(std::max<std::size_t>(length, 1));
  return out;
}

std::string describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null: return "nothing";
    case YamlNode::Kind::list: return "a list";
    case YamlNode::Kind::map: return "a map";
    case YamlNode::Kind::scalar: break;
  }
  constexpr std::size_t kShown = 40;
  return "\"" + (node.text.size() <= kShown ? node.text : node.text.substr(0, kShown) + "...") + "\"";
}

}  // namespace gpuplan
