// A part of what `gpuplan fit --gpus any --may mesh --shard 1/16` asks of, as lines of a sweep, and all parts together.
#pragma once

#include <vector>

#include "estimator/report/read_sweep.h"
#include "tools/answers/offered_meshes.h"

namespace gpuplan {

/// Rows of offered_mesh_names() whose points are the numbers of offers, one at least of each, with an error where no
/// way is listed: so it is known that no part is missing.
std::vector<SweepRow> part_rows(const OfferedMeshes& part);
/// Of the lines of all parts: what offered_meshes() says of all offers, where a part may keep a row whose first rank
/// another part's beat. How many ways were planned is not known. Throws Error, with the file
/// and the line, where every offer is refused, and for a row without a time or with a number that is none.
OfferedMeshes joined_offers(const SweepLines& lines);

}  // namespace gpuplan
