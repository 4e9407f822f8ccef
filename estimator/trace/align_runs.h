// Aligns recorded runs into one list of events; each event belongs to all runs or to some of them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "estimator/trace/learned_trace.h"
#include "estimator/trace/recorded_run.h"

namespace gpuplan {

/// Fills `trace`'s words, sizes, tensors, sections and peaks from its runs; its variables and runs are set.
/// Events are the same where their name, their place, their stream and their order are. Where the runs differ, sizes
/// that are equal or in proportion tell which are; what a run does not have is marked. Throws Error where the runs have
/// other steps or phases, or too much in one that differs.
void align_runs(std::span<const RecordedRun> runs, LearnedTrace& trace);

}  // namespace gpuplan
