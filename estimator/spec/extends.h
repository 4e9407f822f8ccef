// `extends: base.yaml`: a spec that changes another.
#pragma once

#include <memory>
#include <vector>

#include "estimator/spec/read.h"
#include "estimator/spec/yaml.h"

namespace gpuplan {

/// The document of `source` merged over those that it extends: maps key by key, anything else replaced.
/// Appends every source read to `sources`, the given one first. Throws Error for a file that extends
/// itself, a chain longer than kMaxExtends, or a file that options.open cannot give.
const YamlNode& read_document(std::shared_ptr<const Source> source, const SpecOptions& options, YamlArena& arena,
                              std::vector<std::shared_ptr<const Source>>& sources);

}  // namespace gpuplan
