// How long a step takes on one of several GPUs: its own work, and what it sends where nothing hides that.
#pragma once

#include <span>
#include <vector>

#include "estimator/parallel/communication.h"
#include "estimator/time/timing.h"

namespace gpuplan {

struct RankTime {
  StepTime step;                // of the rank; StepTime::communication_seconds is what is exposed, in all
  std::vector<double> exposed;  // seconds, one a row of communication
  double alone_seconds = 0;     // a step of the rank's batch on one GPU that has everything to itself
  /// Of so many GPUs' throughput, the share that is left: 1 is perfect. More than 1 where sharing the optimizer's work
  /// saves more than sending costs.
  double efficiency() const { return step.seconds() > 0 ? alone_seconds / step.seconds() : 0; }
};

/// Of each row what is not hidden behind the phase that it runs beside. Rows beside the same phase share its time in
/// their order, for they share the link; those in buckets are the only ones beside theirs. Every row's seconds must be
/// known. `backward_ends`: TimedStep's, of the schedule whose steps buckets name; without them rows in buckets are as
/// rows all along the phase.
std::vector<double> exposed_seconds(std::span<const CommunicationRow> rows, const StepTime& time,
                                    std::span<const double> backward_ends = {});

/// `own`: of the rank without communication.
RankTime rank_time(std::span<const CommunicationRow> rows, const StepTime& own, double alone_seconds,
                   std::span<const double> backward_ends = {});

}  // namespace gpuplan
