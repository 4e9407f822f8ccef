// Files for the viewers that people have, of plans and of snapshots.
#pragma once

#include <functional>
#include <vector>

#include "estimator/plan/plan_snapshot.h"
#include "estimator/snapshot/snapshot.h"
#include "tools/options/output_options.h"

namespace gpuplan {

/// Writes each; `make` is called where there is one, `page` makes its HTML report, and `timed`, where times are known,
/// what a trace has of it. Returns whether one went to standard output, which then has nothing else. Throws Error.
bool write_viewers(const std::vector<ViewerFile>& files, const std::function<Snapshot()>& make,
                   const std::function<std::string(const Snapshot&)>& page,
                   const std::function<TimedSnapshot()>& timed = {});

}  // namespace gpuplan
