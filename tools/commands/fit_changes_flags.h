// The flags of `gpuplan fit` that do not go with --solve and --may.
#pragma once

#include <string>

#include "tools/options/fit_options.h"

namespace gpuplan {

/// Throws Error (usage) for what is of the largest batch: prices, and several GPUs. `asked`: "--may".
void refuse_beside_changes(const std::string& asked, const FitOptions& options);
/// Throws Error (usage) for what --may mesh does not try.
void refuse_with_mesh(const FitOptions& options);

}  // namespace gpuplan
