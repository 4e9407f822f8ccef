// A gpuplan.yaml to go on from: today's figures and some room above them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tools/options/run_options.h"

namespace gpuplan {

/// A check for each model, whose path is written as seen from `folder`, run as `run` says (its own model is not looked
/// at). `headroom`: hundredths of a percent. Throws Error where a model cannot be planned, or has a name that no file
/// of text holds. Two of one name are told apart by a number.
std::string starter_budget(const std::vector<std::string>& models, const std::filesystem::path& folder,
                           const RunOptions& run, std::int64_t headroom);

}  // namespace gpuplan
