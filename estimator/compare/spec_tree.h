// A spec as a tree of what it says, each part with its place: what two specs are compared by. Comments, spacing, the
// form of a call, defaults that are written out, blocks that nothing calls and the order of keys that means nothing
// leave no trace in it.
#pragma once

#include <vector>

#include "estimator/compare/spec_part.h"
#include "estimator/graph/layer.h"
#include "estimator/spec/syntax.h"

namespace gpuplan {

/// `settings`: of --set, which stand in for what `vars:` has. `catalog`: whose names of parameters and defaults hold.
SpecPart spec_tree(const SpecSyntax& spec, const std::vector<Variable>& settings, Catalog catalog);

}  // namespace gpuplan
