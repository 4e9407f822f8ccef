// The base of checks in git: the same files at a commit.
#pragma once

#include <filesystem>
#include <string>

#include "tools/check/baseline.h"
#include "tools/git/base.h"

namespace gpuplan {

/// `file`: gpuplan.yaml, "" for checks of the command line; models are relative to the current folder. `wanted`: "auto"
/// or a name of a commit. A check of the file, which reads as `now`, is compared with that of its name in the base's
/// gpuplan.yaml, or with the one that has got its name; one that is new with nothing. A check of the command line is
/// compared with itself there. Throws Error: no repository, no such commit, and, unless the base may be broken, a
/// gpuplan.yaml of the base that cannot be read.
Baseline git_baseline(const std::filesystem::path& repository, const std::string& file, const Budget& now,
                      const std::string& wanted, const git::Environment& environment, bool may_be_broken = false);

}  // namespace gpuplan
