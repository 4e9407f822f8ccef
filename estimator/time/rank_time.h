// Step time on one of several GPUs: its own work plus exposed communication.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "estimator/distributed/communication.h"
#include "estimator/distributed/rank_step.h"
#include "estimator/distributed/transfers.h"
#include "estimator/plan/timing.h"
#include "estimator/time/time_model.h"

namespace gpuplan {

/// When a micro-batch calls for what, and what that finds.
struct Overlap {
  std::vector<Transfer> transfers;
  std::vector<StepWork> steps;                    // of the schedule that these are between
  std::function<StepWork(std::int64_t)> copying;  // of one kernel that reads and writes so many bytes
  /// Of each micro-batch before, which is of the same steps; FSDP2's.
  std::vector<Transfer> earlier = {};
  std::int64_t earlier_times = 0;
};

struct Exposed {
  std::vector<double> rows;
  double copy_seconds = 0;
};

/// The exposed seconds of each row. For transfers: how much longer the micro-batch takes by waiting for them. For other
/// rows: what does not overlap with their phase; rows of one phase share its time in order, because they share the
/// link; their copies occupy the GPU while their kernels run. All rows must have known seconds.
///
/// The link does one collective after another, in the order of the host's calls: they are of one communicator, whose
/// operations NCCL keeps in order (its user guide, "CUDA Stream Semantics").
Exposed exposed_seconds(std::span<const CommunicationRow> rows, const StepTime& time, const Overlap& overlap = {});

/// `own`: of the rank without communication.
RankTime rank_time(std::span<const CommunicationRow> rows, const StepTime& own, double alone_seconds,
                   const Overlap& overlap = {});

/// How long `step`, which has its calls, takes its rank. Nothing where why_no_time() says something or a row's link is
/// not known. ZeRO-2 and 3 step 1 / n of everything. Copies into the collectives' buffers and out of them are in it;
/// under DDP and FSDP2 each costs the host a node of backward. All GPUs wait for the slowest of them, which is the one
/// that is timed (slowest_gpu.h).
std::optional<RankTime> rank_time(const RankStep& step, std::span<const CommunicationRow> rows, HostCopy copy,
                                  const TimeModel& constants = {});

}  // namespace gpuplan
