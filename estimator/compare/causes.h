// The lines of a spec that changed: the causes of a difference.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "estimator/graph/layer.h"
#include "estimator/spec/read.h"

namespace gpuplan {

/// A model before it is read: what read_model takes.
struct WrittenModel {
  std::shared_ptr<const Source> source;
  SpecOptions options;
  std::string stored_type{};  // "bfloat16": as which the file that it was imported of says its weights are stored
};

/// A place that needs no Source to be kept: for messages and annotations.
struct Place {
  std::string file;  // empty: nowhere, such as a value of --set
  int line = 0, column = 0, length = 1;
  std::string text;  // of the line
};

struct Cause {
  enum class Kind : unsigned char { changed, added, removed, moved };
  Kind kind = Kind::changed;
  std::string what;      // "vars.seq", "layers.fc.out_features", "blocks.Bottleneck.conv1"
  std::string from, to;  // "1024", "Linear(8, 16)", "True (default)"; empty where there is none
  Place at;   // in the model as it is now; of what has been removed: the part that it was removed from, where known
  Place was;  // in the base
};

/// In the order of the file. Empty where both are the same model once resolved, however they are written. A value that
/// several layers take from a variable or a parameter of a block is one cause, where it is given. Throws Error as
/// read_model does.
std::vector<Cause> causes(const WrittenModel& base, const WrittenModel& now, Catalog catalog);

}  // namespace gpuplan
