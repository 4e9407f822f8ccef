// fsdp_config of a config of Accelerate, where fsdp_version is 1.
#pragma once

#include <string>

#include "estimator/spec/yaml.h"

namespace gpuplan {

/// The words of --fsdp version=1: FullyShardedDataParallelPlugin (accelerate/utils/dataclasses.py) with what accelerate
/// launch says where the file does not (commands/launch.py). Offloading and the policy are read elsewhere.
std::string words_of_flat(const YamlNode& fsdp);

}  // namespace gpuplan
