// Models that have some of the causes of a difference, for planning each by itself.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "estimator/compare/mixed_spec.h"

namespace gpuplan {

class CauseModels {
 public:
  /// `list`: of causes(base, now). Throws Error as that does.
  CauseModels(const WrittenModel& base, const WrittenModel& now, const std::vector<Cause>& list);

  /// What `plan` says of the base's model with these causes made, by number, and no others; nothing where there is no
  /// such model or it cannot be planned (`plan` throws Error). `set`: as SpecOptions::set.
  std::optional<std::int64_t> amount(const std::vector<bool>& made, const std::vector<Variable>& set,
                                     const std::function<std::int64_t(const Model&)>& plan) const;

 private:
  MixedSpec spec_;
  std::vector<std::vector<std::size_t>> edits_;  // by cause
  std::vector<std::size_t> neutral_;             // edits that are no cause, as of a block that nothing calls yet
};

}  // namespace gpuplan
