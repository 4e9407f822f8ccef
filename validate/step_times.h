// How long a plan's steps take on a device, operation by operation, beside the least that they can take there.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "estimator/time/peaks.h"
#include "validate/executor/execution.h"

namespace gpuplan {

/// Of several readings of one thing, in milliseconds.
struct Spread {
  double median = 0, least = 0, most = 0;
};
/// All 0 of none. Of an even number of readings the median is the mean of the two in the middle.
Spread spread_of(std::vector<double> readings);

/// The operations of one layer, of one name or of one class, in one step. Each time is a median over the timed steps.
struct TimeRow {
  std::string name;
  std::int64_t operations = 0;
  double forward_ms = 0, backward_ms = 0, update_ms = 0;  // forward: with the loss; update: with clipping
  Spread total_ms;
  std::int64_t flops = 0, bytes = 0;  // that have to be computed and moved
  double least_ms = 0;                // each operation at the GPU's peaks; 0: they are not known
  double flops_per_second() const;
  double bytes_per_second() const;
  /// least_ms as a share of the median: 1 is the roofline.
  double roofline() const;
};

struct StepTimes {
  Peaks peaks;
  int warm_up_steps = 0;
  std::vector<double> steps_ms;                      // without marks between operations, one after another
  std::vector<double> marked_ms;                     // the steps that the rows were measured in
  double least_ms = 0;                               // of all operations
  std::vector<TimeRow> layers, classes, operations;  // slowest first
};

/// Of the execution that times so many steps.
int timed_execution_steps(int steps);

/// Runs the execution for two steps of warm-up, `steps` with a mark at their ends and `steps` with one behind every
/// operation. From mark to mark passes what the operation takes and, where the device waits for the host, that wait. No
/// memory or loss is read meanwhile. `watcher` may be null. Throws what the execution throws; Error where memory runs
/// out.
StepTimes time_steps(Device& device, const RankStep& rank, int steps, const Peaks& peaks, ExecutionWatcher* watcher);

}  // namespace gpuplan
