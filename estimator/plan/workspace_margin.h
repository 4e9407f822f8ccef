// How much memory a step may need beyond its replay because some cuDNN workspaces were not recorded.
#pragma once

#include <cstdint>
#include <span>

#include "estimator/allocator/loop_replay.h"
#include "estimator/device/gpu.h"
#include "estimator/schedule/schedule.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

struct WorkspaceMargin {
  std::int64_t convolutions = 0;     // calls in a micro-batch whose workspaces were not recorded
  std::int64_t allocated_bytes = 0;  // beyond the peak
  std::int64_t reserved_bytes = 0;   // beyond the peak
};

/// `passes` and `replay` as of replay_step(). A workspace is alive while its own convolution runs and at no other time:
/// allocated bytes are at most what is alive with one of them, and the most that one takes. Reserved bytes are at most
/// a segment more in forward and one in backward, of the largest of them, since it may find no free block. What runs
/// after it may lie elsewhere then: each block of more than 1 MiB may keep a rest of 1 MiB
/// (c10/cuda/CUDACachingAllocator.cpp, should_split).
WorkspaceMargin workspace_margin(std::span<const Schedule> passes, const LoopReplay& replay, const RunConfig& run,
                                 const Gpu& gpu);

}  // namespace gpuplan
