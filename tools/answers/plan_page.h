// The HTML pages of a plan and of a snapshot.
#pragma once

#include <string>
#include <vector>

#include "estimator/plan/plan.h"
#include "estimator/report/snapshot_report_writers.h"
#include "estimator/snapshot/snapshot.h"

namespace gpuplan {

/// `text`: what a terminal shows. `snapshot`: the plan's, snapshot_of(). `command`: what made it.
std::string plan_page(const Report& report, const Snapshot& snapshot, const std::string& command,
                      const std::string& text);
/// Of the GPU of the process that took most.
std::string run_page(const SnapshotPage& page, const Snapshot& snapshot, const std::string& command,
                     const std::string& text);

/// Of several snapshots, such as those of the ranks of a run, each with its memory_page_json().
std::string runs_page(const std::vector<SnapshotPage>& pages, std::vector<std::string> memories,
                      const std::string& command, const std::string& text);
/// Of a page of several plans, under a name: memory_page_json() of the plan's settled step. Empty under an allocator
/// that has no events.
std::string memory_of(const std::string& name, const Plan& plan);
/// A page holds so many bytes of them; what comes later has its figures only.
constexpr std::size_t kMostMemory = std::size_t{12} << 20U;

}  // namespace gpuplan
