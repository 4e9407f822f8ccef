// What `gpuplan snapshot` says of a device: what was alive at the peak, by line and by kind, what grows from step to
// step, and what an error of memory would have needed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "estimator/snapshot/snapshot_history.h"
#include "estimator/snapshot/snapshot_lines.h"

namespace gpuplan {

/// Told by lifetimes, where the optimizer's steps are marked (Optimizer.step#... of torch.profiler's record_function)
/// or torch.optim allocates in each.
enum class SnapshotKind : std::uint8_t { kept, optimizer, gradient, passing };
constexpr std::size_t kSnapshotKinds = 4;
/// "parameters and what else is kept", ...
const char* name_of(SnapshotKind kind);

struct SnapshotShare {
  std::string text, file;
  std::int32_t line = 0;
  std::int64_t bytes = 0, tensors = 0;
};

struct SnapshotGrowth {
  std::string text, file;
  std::int32_t line = 0;
  std::int64_t bytes_of_step = 0;  // in the mean, from the second step on
};

struct SnapshotWay {
  std::string words;             // "expandable_segments:True"
  bool runs = false;             // the same requests, with the same memory
  std::int64_t short_bytes = 0;  // else: what is missing at least
};

struct SnapshotFailure {
  SnapshotOutOfMemory reading;
  std::string text;  // the line
  std::vector<SnapshotWay> ways;
};

struct SnapshotStep {
  std::int64_t end_bytes = 0, peak_bytes = 0;  // allocated
};

/// Peaks of allocated bytes.
struct SnapshotPhase {
  std::string name;  // "forward", "backward", "optimizer"
  std::int64_t peak_bytes = 0;
};

struct SnapshotReport {
  std::size_t device = 0, events = 0;
  SnapshotHistory history;
  std::string peak_at;                 // the line of the allocation
  std::int32_t peak_step = 0;          // from 1; 0: steps are not marked
  std::vector<SnapshotShare> alive;    // at the peak, by line, the largest first
  std::vector<SnapshotShare> modules;  // the same by torch.nn's module, as far as frames tell; empty where none does
  std::vector<std::int64_t> kinds;     // bytes by SnapshotKind; empty where no step is marked
  std::vector<SnapshotStep> steps;
  bool steps_by_lines = false;         // nothing is marked (PyTorch 2.1), and torch.optim's own allocations tell them
  std::vector<SnapshotPhase> phases;   // of the step of the peak, or of the last; empty where backward is not told
  std::vector<SnapshotGrowth> growth;  // lines that hold more after every step, the fastest first
  std::vector<SnapshotFailure> failures;
  std::int64_t segments = 0, largest_free_bytes = 0, inactive_bytes = 0;  // at the end
};

SnapshotReport report_of(const Snapshot& snapshot, std::size_t device, const std::vector<SnapshotLine>& lines);

}  // namespace gpuplan
