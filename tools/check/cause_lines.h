// The lines behind a check's difference from the base, and what each of them does to the figure that is broken.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "estimator/compare/cause_models.h"
#include "estimator/report/check_report.h"
#include "tools/check/check_side.h"

namespace gpuplan {

/// Lines of gpuplan.yaml, then of the model, each in the order of its file.
struct CheckCauses {
  std::vector<CauseLine> lines;
  std::size_t settings = 0;           // so many of them are of gpuplan.yaml
  std::optional<CauseModels> models;  // of the others; nothing where they are too many to plan each
};
/// Both sides are planned; what the base's model extends is read. Throws Error.
CheckCauses check_causes(const CheckSide& head, const CheckSide& base);

/// How a check is planned, its model left out; what an assertion's figure is in a plan of it, as the check shares it.
/// Both may throw Error.
struct OtherPlans {
  std::function<Planning(const Check&)> prepare;
  std::function<std::int64_t(const Planning&, const Check&)> figure;
};
/// Plans each cause by itself, and tells them in `result`: those first that take `broken` furthest over its limit. In
/// the order of the files where there is one only, or more than a check should take the time for.
void tell_causes(const CheckCauses& causes, const CheckSide& head, const CheckSide& base, const Assertion& broken,
                 const OtherPlans& plans, CheckResult& result);

}  // namespace gpuplan
