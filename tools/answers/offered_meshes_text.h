// The rows of `gpuplan fit --gpus any --may mesh` as a screen, and as lines of a sweep.
#pragma once

#include <string>
#include <vector>

#include "estimator/base/calendar.h"
#include "estimator/report/text_style.h"
#include "estimator/search/sweep_row.h"
#include "tools/answers/offered_meshes.h"

namespace gpuplan {

/// A line of figures and one of flags for each, what is not known, and how old the prices are on the day `today`. On a
/// terminal that is too narrow instances are on lines of their own. Without a `market`, which parts that are put
/// together do not say, notes about prices and networks are left out.
std::string offered_meshes_text(const OfferedMeshes& meshes, const FitQuestion* market, const TextStyle& style,
                                Day today);

/// The swept flags of sweep_rows(): "gpu", "gpus", "instances", "usd_per_hour", "usd_per_step", "flags".
std::vector<std::string> offered_mesh_names();
std::vector<SweepRow> sweep_rows(const OfferedMeshes& meshes);

/// The one whose step costs least, or the fastest where no price is known; nullptr of none.
const OfferedMesh* cheapest(const OfferedMeshes& meshes);

}  // namespace gpuplan
