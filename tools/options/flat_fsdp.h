// --fsdp version=1: FSDP1, torch.distributed.fsdp.FullyShardedDataParallel.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "estimator/distributed/strategy.h"
#include "tools/options/several_gpus.h"

namespace gpuplan {

/// KEY=VALUE,... of --fsdp; the value is empty where there is none.
std::vector<std::pair<std::string, std::string>> fsdp_pairs(const std::string& words);
/// Throws Error (usage) for a key without a value, and for one of `given`, to which it is added.
void take_fsdp_key(std::vector<std::string>& given, const std::string& key, const std::string& value);

/// Whether the words of --fsdp say version=1.
bool asks_for_flat_parameters(const std::string& words);

/// The words into a strategy: FullyShardedDataParallel's arguments. Throws Error (usage) for what is not understood,
/// said twice, said by another flag, too, or FSDP2's alone.
void read_flat_fsdp(const SeveralGpusOptions& options, Strategy& strategy);

/// Throws Error (usage) for flags that share the model in ways that FSDP1 is not planned with.
void refuse_beside_flat(const SeveralGpusOptions& options, const Strategy& strategy);

}  // namespace gpuplan
