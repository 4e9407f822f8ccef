// Models between two versions: the base with some of the edits that lead to the other version.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "estimator/compare/causes.h"
#include "estimator/spec/yaml.h"

namespace gpuplan {

class MixedSpec {
 public:
  /// Throws Error as read_model does.
  MixedSpec(const WrittenModel& base, const WrittenModel& now);

  /// How many edits lead from the base to the other: a value, an argument of a call, a key or an entry of a list that
  /// came or went. What means the same is one too.
  std::size_t edits() const { return edits_.size(); }
  /// The edits that a cause is made of, by number; none where it stands in neither document.
  std::vector<std::size_t> edits_of(const Cause& cause) const;
  /// The model with these edits made, by number. `set`: as SpecOptions::set. Throws Error where it is none: an edit may
  /// need another one. The model's marks point into this object.
  Model with(const std::vector<bool>& made, const std::vector<Variable>& set) const;

 private:
  // What both documents have at one place. Null: one of them has nothing there.
  struct Part {
    const YamlNode *base_key = nullptr, *base = nullptr, *now_key = nullptr, *now = nullptr;
    std::optional<std::size_t> edit;  // either side, as a whole
    std::vector<Part> parts;          // else, where they differ: of a map, a list or the arguments of a call
  };

  Part compare(const YamlNode& base, const YamlNode& now);
  void compare_maps(const YamlNode& base, const YamlNode& now, Part& part);
  void compare_lists(const YamlNode& base, const YamlNode& now, Part& part);
  void add_edit(Part& part);
  const YamlNode* opened_call(const YamlNode& scalar);
  static const YamlNode& mixed(const Part& part, const std::vector<bool>& made, YamlArena& arena);
  static const YamlNode* chosen(const Part& part, const std::vector<bool>& made, const YamlNode*& key,
                                YamlArena& arena);

  YamlArena arena_;
  std::vector<std::shared_ptr<const Source>> sources_;
  std::vector<Part> edits_;  // without parts
  Part root_;
};

}  // namespace gpuplan
