// A checked spec with its blocks, repeats, conditions and expressions resolved: the Model.
//
// Names follow nn.Sequential: an unnamed entry takes its index in its list, entries that an `if` leaves
// out not counted. Unnamed residuals and parallels are transparent: they have no name, and unnamed
// entries within them take the numbers that follow those of the list around them (and of the explicit
// names there). Two entries of one path are an error. `from` names come out relative to the enclosing
// block, `tie` as a path from the model.
#pragma once

#include <vector>

#include "estimator/spec/syntax.h"

namespace gpuplan {

/// `values` replace those of the variables of the same name. The Model's sources are left empty.
/// Throws Error for a missing or ill-typed parameter, a size below 1, two equal names, an unknown name
/// in `from` or `tie`, and a model larger than limits.h allows.
Model expand(const SpecSyntax& spec, const std::vector<Variable>& values);

}  // namespace gpuplan
