// What a run asks for, and which programs can be told so.
#pragma once

#include <string>
#include <vector>

#include "estimator/launch/launch.h"

namespace gpuplan {

/// Throws Error (usage) for the first property of `launch` that `target` has no word for, with the targets that have.
void refuse_unsaid(const Launch& launch, LaunchTarget target);

/// Of a DeepSpeed config, which says nothing of the model: the properties that a script says itself, as flags of
/// gpuplan.
std::vector<std::string> left_to_script(const Launch& launch);

}  // namespace gpuplan
