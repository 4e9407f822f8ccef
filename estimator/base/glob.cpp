#include "estimator/base/glob.h"

namespace gpuplan {

// Greedy, with one place to come back to for each kind of star, so that a pattern costs at most its length times the
// path's, squared.
bool matches_glob(std::string_view path, std::string_view pattern) {
  std::size_t p = 0, q = 0;
  struct Star {
    std::size_t pattern = std::string_view::npos, path = 0;
  } within, any;
  while (p < path.size()) {
    if (q < pattern.size() && pattern[q] == '*') {
      const bool both = q + 1 < pattern.size() && pattern[q + 1] == '*';
      q += both ? 2 : 1;
      (both ? any : within) = {q, p};
      if (both) within = {};
      continue;
    }
    if (q < pattern.size() && (pattern[q] == path[p] || (pattern[q] == '?' && path[p] != '.'))) {
      ++p, ++q;
      continue;
    }
    if (within.pattern != std::string_view::npos && path[within.path] != '.') {
      p = ++within.path;
      q = within.pattern;
    } else if (any.pattern != std::string_view::npos) {
      p = ++any.path;
      q = any.pattern;
      within = {};
    } else {
      return false;
    }
  }
  while (q < pattern.size() && pattern[q] == '*') ++q;
  return q == pattern.size();
}

}  // namespace gpuplan
