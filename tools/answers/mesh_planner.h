// One way to share a step, planned.
#pragma once

#include <optional>
#include <string>

#include "estimator/search/sweep_row.h"
#include "tools/answers/mesh_ways.h"

namespace gpuplan {

struct PlannedWay {
  MeshWay way;
  std::string micro_batches;  // "": one
  SweepFigures figures;
};
/// Its flags beside those of the question.
std::string flags_of(const MeshQuestion& question, const PlannedWay& planned);

/// With as few micro-batches as fit, or of a pipeline as many as are fastest, where the question lets them change.
/// Throws Error for a way that is refused.
PlannedWay planned_way(const MeshQuestion& question, const MeshWay& way);
/// The same; nothing where it does not fit, which is known sooner.
std::optional<PlannedWay> fitting_way(const MeshQuestion& question, const MeshWay& way);
/// The figures as `gpuplan plan` says them: of the rank that needs the most, where the others are of the first.
SweepFigures figures_of_worst(const MeshQuestion& question, const PlannedWay& planned);

}  // namespace gpuplan
