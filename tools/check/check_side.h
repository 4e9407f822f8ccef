// One side of a check's comparison with the base.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "estimator/budget/judge.h"
#include "estimator/compare/causes.h"
#include "estimator/distributed/strategy.h"
#include "tools/answers/planning.h"

namespace gpuplan {

/// A model planned as a check says, or a recording's figures.
struct CheckSide {
  Measured measured;
  Check check;           // the base's may have other run flags
  bool planned = false;  // else there are figures only, and nothing of what follows but `fits`
  Planning planning;
  std::optional<Strategy> strategy;  // of several GPUs: the report is of the rank that needs the most
  Report report;
  WrittenModel written;
  std::map<std::string, std::int64_t> fits;  // device bytes by the GPU's title, where they were saved
};

}  // namespace gpuplan
