// `matrix: {batch: [8, 16], dtype: [fp32, bf16]}`: a check for each combination.
#pragma once

#include <vector>

#include "estimator/budget/budget.h"

namespace gpuplan {

/// One key of a matrix, a setting for each of its values.
using MatrixAxis = std::vector<Setting>;

/// The combinations of `check`, the last axis changing fastest, each named after its values:
/// "gpt2[batch=8,dtype=bf16]". Without axes the check itself.
std::vector<Check> multiply(const Check& check, const std::vector<MatrixAxis>& axes);

}  // namespace gpuplan
