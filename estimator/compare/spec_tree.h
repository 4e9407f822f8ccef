// A spec as a tree of its parts with their positions, for comparing two specs. It does not depend on comments, spacing,
// the form of a call, explicit defaults, unused blocks or an irrelevant order of keys.
#pragma once

#include <vector>

#include "estimator/compare/spec_part.h"
#include "estimator/graph/layer.h"
#include "estimator/spec/syntax.h"

namespace gpuplan {

/// `settings`: of --set, which stand in for what `vars:` has. `catalog`: whose names of parameters and defaults hold.
SpecPart spec_tree(const SpecSyntax& spec, const std::vector<Variable>& settings, Catalog catalog);

}  // namespace gpuplan
