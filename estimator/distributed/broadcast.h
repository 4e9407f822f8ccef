// What sends a model's state from one rank to the others.
#pragma once

#include <span>

#include "estimator/distributed/collective_writer.h"
#include "estimator/distributed/ddp_buckets.h"

namespace gpuplan {

/// torch/csrc/distributed/c10d/comm.cpp, broadcast_coalesced: tensors are copied into flat ones of up to 250 MiB, two
/// of which are under way at a time.
void broadcast_coalesced(CollectiveWriter& writer, std::span<const GradientSize> tensors);

}  // namespace gpuplan
