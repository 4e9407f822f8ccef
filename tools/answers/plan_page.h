// The HTML pages of a plan and of a snapshot.
#pragma once

#include <string>

#include "estimator/plan/report.h"
#include "estimator/report/snapshot_report_writers.h"
#include "estimator/snapshot/snapshot.h"

namespace gpuplan {

/// `text`: what a terminal shows. `snapshot`: the plan's, snapshot_of(). `command`: what made it.
std::string plan_page(const Report& report, const Snapshot& snapshot, const std::string& command,
                      const std::string& text);
/// Of the GPU of the process that took most.
std::string run_page(const SnapshotPage& page, const Snapshot& snapshot, const std::string& command,
                     const std::string& text);

}  // namespace gpuplan
