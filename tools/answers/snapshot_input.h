// Snapshots of PyTorch's allocator as input: torch.cuda.memory._dump_snapshot()'s pickles.
#pragma once

#include <string>

#include "estimator/snapshot/snapshot.h"
#include "tools/options/run_options.h"
#include "tools/process/read_source.h"

namespace gpuplan {

/// Whether it begins as a pickle; of a pipe, false.
bool is_snapshot(const std::string& name);
/// Of a text that was read. Throws Error.
Snapshot snapshot_in(const Source& source);
/// Throws Error.
Snapshot open_snapshot(const std::string& name);

}  // namespace gpuplan
