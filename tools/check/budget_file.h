// Which gpuplan.yaml a check reads, and what its paths mean.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "estimator/budget/budget.h"

namespace gpuplan {

/// The gpuplan.yaml (or .yml) of `start` or of the nearest folder above it, up to the repository's top, if any is
/// given, else to the file system's. Throws Error where a folder has both; nothing where none is found.
std::optional<std::filesystem::path> find_budget(const std::filesystem::path& start,
                                                 const std::optional<std::filesystem::path>& top);

/// Whether a file, links followed, lies in a folder; it need not be there.
bool lies_within(const std::filesystem::path& file, const std::filesystem::path& folder);
/// Throws Error where it does not.
void refuse_outside(const std::filesystem::path& file, const std::filesystem::path& folder);

/// Throws Error, at the check's model, for a path that is absolute, or leaves `top` (the repository, or the folder of
/// gpuplan.yaml without one) by .. or by symbolic links, that is a loop of those, or that is no file. Paths are
/// relative to the current folder. What is not a path, as zoo:NAME, passes.
void refuse_foreign_model(const Check& check, const std::filesystem::path& top);

}  // namespace gpuplan
