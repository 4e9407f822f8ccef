// The least FLOPs and bytes that each operation of a step, and the optimizer, must compute and move.
#pragma once

#include <string_view>

#include "estimator/optimizer/optimizer_work.h"
#include "estimator/schedule/calls.h"
#include "estimator/schedule/schedule.h"
#include "estimator/time/peaks.h"

namespace gpuplan {

/// How operations are grouped: by what their Primitive is.
std::string_view class_name(const Primitive& what);

/// Every tensor that the operation is given counts once, at the size of its distinct elements, and one that it changes
/// in place twice; of an embedding's table the rows that are looked up. Scratch does not count: another kernel may do
/// without.
Work work_of(const ScheduledOp& step, const KernelCall& call, const Calls& calls, bool tf32);

/// The same of a product whose factor is a weight stored in `format`: it is read as it is stored, and int4 of more than
/// one row written and read once more in the type that is computed in. What quantises the other factor is not counted.
Work with_stored_weight(Work work, const Primitive& what, const KernelCall& call, const Calls& calls,
                        const Graph& graph, WeightFormat format);

/// One optimizer.step(): reads parameters, gradients and states, writes parameters and states.
Work update_work(const Graph& graph, const Schedule& schedule, const OptimizerWork& optimizer);
/// clip_grad_norm_: reads the gradients for their norm, then scales them.
Work clip_work(const Graph& graph, const Schedule& schedule, const OptimizerWork& optimizer);

}  // namespace gpuplan
