// How long a step takes on one of several GPUs: its own work, and what it sends where nothing hides that.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "estimator/parallel/communication.h"
#include "estimator/parallel/transfers.h"
#include "estimator/time/timing.h"

namespace gpuplan {

struct RankTime {
  StepTime step;                // of the rank; StepTime::communication_seconds is what is exposed and copied, in all
  std::vector<double> exposed;  // seconds, one a row of communication
  double copy_seconds = 0;      // into the collectives' buffers and out of them
  double alone_seconds = 0;     // a step of the rank's batch on one GPU that has everything to itself
  /// Of so many GPUs' throughput, the share that is left: 1 is perfect. More than 1 where sharing the optimizer's work
  /// saves more than sending costs.
  double efficiency() const { return step.seconds() > 0 ? alone_seconds / step.seconds() : 0; }
};

/// When a micro-batch calls for what, and what that finds.
struct Overlap {
  std::vector<Transfer> transfers;
  std::vector<StepWork> steps;                    // of the schedule that these are between
  std::function<StepWork(std::int64_t)> copying;  // of one kernel that reads and writes so many bytes
};

struct Exposed {
  std::vector<double> rows;
  double copy_seconds = 0;
};

/// Of each row what is not hidden. Those of transfers: what the micro-batch takes longer by waiting for them. Others:
/// what the phase that they run beside does not hide; rows beside the same phase share its time in their order, for
/// they share the link; their copies take the GPU as long as their kernels run. Every row's seconds must be known.
///
/// The link does one collective after another, in the order of the host's calls: they are of one communicator, whose
/// operations NCCL keeps in order (its user guide, "CUDA Stream Semantics").
Exposed exposed_seconds(std::span<const CommunicationRow> rows, const StepTime& time, const Overlap& overlap = {});

/// `own`: of the rank without communication.
RankTime rank_time(std::span<const CommunicationRow> rows, const StepTime& own, double alone_seconds,
                   const Overlap& overlap = {});

}  // namespace gpuplan
