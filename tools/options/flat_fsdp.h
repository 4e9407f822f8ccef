// --fsdp version=1: FSDP1, torch.distributed.fsdp.FullyShardedDataParallel.
#pragma once

#include <string>

#include "estimator/distributed/strategy.h"
#include "tools/options/several_gpus.h"

namespace gpuplan {

/// Whether the words of --fsdp say version=1.
bool asks_for_flat_parameters(const std::string& words);

/// The words into a strategy: FullyShardedDataParallel's arguments. Throws Error (usage) for what is not understood,
/// said twice, said by another flag, too, or FSDP2's alone.
void read_flat_fsdp(const SeveralGpusOptions& options, Strategy& strategy);

/// Throws Error (usage) for flags that share the model in ways that FSDP1 is not planned with.
void refuse_beside_flat(const SeveralGpusOptions& options, const Strategy& strategy);

}  // namespace gpuplan
