// A node of the trees by which specs are compared: one part of a spec, with its parts.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "estimator/base/error.h"

namespace gpuplan {

struct SpecPart {
  std::string key;                // "vars", "out_features"; of an entry of a list: its name, empty without one
  std::string value;              // what it says itself: "64", "Conv2d"; empty where only what is in it counts
  std::string text;               // for people, of all of it: "Conv2d(3, 64, 7)"
  std::string otherwise;          // what holds where it is left out: "True (default)"
  SourceMark mark;                // of the value
  SourceMark whole;               // where it begins
  bool list = false;              // its entries are a list, whose order counts
  bool in_path = true;            // its key is part of the names of what is in it
  std::vector<SpecPart> parts;    // found by key
  std::vector<SpecPart> entries;  // of a list
};

/// Parts by their keys. `parts` must outlive it.
class PartFinder {
 public:
  explicit PartFinder(const std::vector<SpecPart>& parts);
  /// nullptr where there is none.
  const SpecPart* find(const std::string& key) const;

 private:
  const std::vector<SpecPart>& parts_;
  std::unordered_map<std::string_view, const SpecPart*> by_key_;  // of more than a few
};

bool same(const SpecPart& a, const SpecPart& b);
/// The same but for the key.
bool same_content(const SpecPart& a, const SpecPart& b);

}  // namespace gpuplan
