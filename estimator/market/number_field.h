// Numbers in fields of a CSV file.
#pragma once

#include <optional>

#include "estimator/base/csv.h"

namespace gpuplan {

/// A number above 0, 1e12 at most; nothing of an empty field. Throws Error, at the field, for anything else; `what`
/// names it.
std::optional<double> number_field(const CsvField& field, std::string_view what);

}  // namespace gpuplan
