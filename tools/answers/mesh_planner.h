// One way to share a step, planned.
#pragma once

#include <optional>

#include "estimator/search/sweep_row.h"
#include "tools/answers/mesh_ways.h"

namespace gpuplan {

/// With as few micro-batches as fit, or of a pipeline as many as are fastest, where the question lets them change; its
/// flags are the value. Throws Error for a way that is refused.
SweepRow planned_way(const MeshQuestion& question, const MeshWay& way);

/// A way that fits, with the micro-batches that were found for it; "" where they may not change, or there is one.
struct FittingWay {
  MeshWay way;
  std::string micro_batches;
  SweepFigures figures;
};
/// The same; nothing where it does not fit, which is known sooner.
std::optional<FittingWay> fitting_way(const MeshQuestion& question, const MeshWay& way);
/// The figures as `gpuplan plan` says them: of the rank that needs the most, where the others are of the first.
SweepFigures figures_of_worst(const MeshQuestion& question, const FittingWay& fitting);

}  // namespace gpuplan
