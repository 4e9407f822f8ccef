// Lists as text and back.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuplan {

/// "a, b, c"; of each item its `words`.
template <class List, class Words = std::identity>
std::string joined(const List& list, std::string_view between = ", ", Words words = {}) {
  std::string out;
  for (const auto& item : list) {
    if (!out.empty()) out += between;
    out += std::invoke(words, item);
  }
  return out;
}

/// What stands between the separators: at least one part, which may be empty.
inline std::vector<std::string_view> split(std::string_view text, char between) {
  std::vector<std::string_view> parts;
  for (std::size_t from = 0; from <= text.size(); from += parts.back().size() + 1)
    parts.push_back(text.substr(from, text.find(between, from) - from));
  return parts;
}

}  // namespace gpuplan
