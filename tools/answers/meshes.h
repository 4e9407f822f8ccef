// gpuplan fit --gpus N --may mesh,...: how N GPUs share a step, the fastest way first.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "estimator/search/sweep_row.h"
#include "tools/answers/mesh_ways.h"

namespace gpuplan {

/// A row a way, its flags as the value, as `gpuplan plan` takes them: DDP (where no type is gathered), FSDP2 with and
/// without resharding and with a replica a node, with experts shared where there are some, tensor parallelism within a
/// node with FSDP2 over the others, and pipelines of 2, 4, 8, ... stages with it. Those that fit, by their throughput;
/// then those that do not, by what they need. What is refused is in none. Throws Error (usage) for what every way is
/// refused for. `told`: called between them, of how many there are and how many are done.
std::vector<SweepRow> meshes(const MeshQuestion& question,
                             const std::function<void(std::size_t done, std::size_t all)>& told = {});

}  // namespace gpuplan
