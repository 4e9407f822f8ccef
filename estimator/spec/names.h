// Rules for names in a spec, and how names in `from:` and `tie:` are resolved.
//
// A frame is one call of a block (or the model itself); `from` reaches within its frame only, as a
// Python function sees its own locals. Within a frame, named residuals, parallels, branches and
// nn.Sequentials prefix the names inside them; unnamed residuals and parallels do not.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "estimator/spec/syntax.h"

namespace gpuplan {

/// One call of a block, or the model.
struct Frame {
  std::string path;   // "layer1.0.", empty for the model
  std::string where;  // "in layer1.0 (block Bottleneck, repeat 1 of 3)", empty for the model
  const ListSyntax* layers = nullptr;
  Scope scope;
};

/// What a list of entries adds names to.
struct Namespace {
  const Frame* frame = nullptr;
  const Namespace* parent = nullptr;      // null: the frame's own
  std::string prefix;                     // within the frame: "" or "encoder."
  std::int64_t next = 0;                  // number of the next unnamed entry within a transparent structure
  std::unordered_set<std::string> taken;  // explicit names that are numbers
};

enum class Named { layer, block, group, branch, input };

class NameTable {
 public:
  struct Entry {
    SourceMark mark;
    Named kind = Named::layer;
    bool finished = false;  // computed: what comes after may refer to it
  };

  /// Takes the path for an entry. Throws Error when it is taken.
  Entry& declare(const std::string& path, const SourceMark& mark, Named kind);

  /// The name, relative to the frame, of the entry that `name` in a `from:` means: the innermost one
  /// that is finished. "input", "inputs", "input.K" and "NAME.K" (an output of several) are returned as they are
  /// (NAME made relative). Throws Error when there is none.
  std::string resolve_from(const std::string& name, const SourceMark& mark, const Namespace& space) const;

  /// The path of the layer that `tie: NAME` means: by name as `from` does, else a path from the model.
  std::string resolve_tie(const std::string& name, const SourceMark& mark, const Namespace& space) const;

 private:
  const Entry* find(const std::string& path) const;
  std::string find_in_frame(const std::string& name, const Namespace& space) const;
  [[noreturn]] void refuse(const std::string& name, const SourceMark& mark, const Namespace& space) const;

  std::unordered_map<std::string, Entry> entries_;
};

}  // namespace gpuplan
