// What gpuplan check is about: one model with limits of the command line, or the checks of gpuplan.yaml.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "estimator/budget/budget.h"
#include "tools/check/one_off.h"
#include "tools/options/output_options.h"
#include "tools/options/run_options.h"
#include "tools/options/several_gpus.h"

namespace gpuplan {

/// Flags of gpuplan check, as written; empty: not given.
struct CheckOptions {
  RunOptions run;
  SeveralGpusOptions several;
  OutputOptions output;
  LimitOptions limits;
  std::vector<std::string> names;
  std::string base, config, fail_on;
  bool update = false, exit_zero = false, no_base = false, quiet_if_unchanged = false, allow_broken_base = false;
  bool trusts_code = false;
};

/// Where the checks come from, and what their paths are relative to.
struct Subject {
  Budget budget;
  std::string file;              // "" for a check of the command line
  std::filesystem::path folder;  // of gpuplan.yaml, else the current one
  std::optional<std::filesystem::path> repository;
  const std::filesystem::path& top() const { return repository ? *repository : folder; }
};

/// Throws Error (usage) for flags that are about gpuplan.yaml, or that say too little.
Subject one_off(const CheckOptions& options);
/// Goes to the folder of gpuplan.yaml: paths in it are relative to that, and said so. Throws Error where there is none,
/// for what it says wrongly, and (usage) for flags that its checks say themselves.
Subject from_file(const CheckOptions& options);

}  // namespace gpuplan
