// The base of checks in git: the same files at a commit.
#pragma once

#include <filesystem>
#include <string>

#include "tools/check/baseline.h"
#include "tools/git/base.h"

namespace gpuplan {

/// `file`: gpuplan.yaml, "" for checks of the command line; models are relative to the current folder. `wanted`: "auto"
/// or a name of a commit. A check is compared with that of its name in the base's gpuplan.yaml, else with itself there.
/// Throws Error: no repository, no such commit.
Baseline git_baseline(const std::filesystem::path& repository, const std::string& file, const std::string& wanted,
                      const git::Environment& environment);

}  // namespace gpuplan
