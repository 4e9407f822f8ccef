// `construction:` of a spec: what constructors make on the GPU beside the weights. {after: ENTRY, run: "+4096 -0"}:
// when the weights of ENTRY are there, 4096 bytes are allocated, and freed again; -K frees what was allocated K-th in
// all steps, counted from 0, and what is not freed stays.
#pragma once

#include <vector>

#include "estimator/spec/model.h"
#include "estimator/spec/yaml.h"

namespace gpuplan {

/// Throws Error for anything but such a list. Whether there is such an entry is the graph's to say.
std::vector<ConstructionStep> read_construction(const YamlNode& node);

/// The text of `run:`.
std::string construction_text(const ConstructionStep& step);

}  // namespace gpuplan
