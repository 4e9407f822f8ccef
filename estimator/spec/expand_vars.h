// The values of a spec's variables and inputs, which its layers are expanded with.
#pragma once

#include <vector>

#include "estimator/spec/syntax.h"

namespace gpuplan {

/// The variables' values in order; a setting replaces a variable's value before those after it are
/// computed. Throws Error, of kind usage, for a setting of a variable that the spec lacks.
std::vector<Scalar> evaluate_vars(const SpecSyntax& spec, const std::vector<Variable>& settings);

/// Throws Error for a size below 1 or more elements than fit in 64 bits.
Input evaluate_input(const InputSyntax& syntax, const Scope& scope);

}  // namespace gpuplan
