// gpuplan fit --gpus N --may mesh,...: how N GPUs share a step, the fastest way first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/search/sweep_row.h"
#include "tools/answers/mesh_ways.h"
#include "tools/options/swept_flags.h"

namespace gpuplan {

/// A row a way, its flags as the value, as `gpuplan plan` takes them: DDP (where no type is gathered), FSDP2 with and
/// without resharding and with a replica a node, with experts shared where there are some, tensor parallelism within a
/// node with FSDP2 over the others, and pipelines of 2, 4, 8, ... stages with it. Those that fit, by their throughput;
/// then those that do not, by what they need. What is refused is in none. Throws Error (usage) for what every way is
/// refused for. `told`: called between them, of how many there are and how many are done.
std::vector<SweepRow> meshes(const MeshQuestion& question,
                             const std::function<void(std::size_t done, std::size_t all)>& told = {});

/// A part of the same search.
struct MeshPart {
  std::vector<SweepRow> rows;    // by the number of the way among all of them; with an error where it is not planned
  std::int64_t points = 0;       // of all ways, those of a context among them
  std::optional<Error> refused;  // why the part's first way is
};
/// Those of a context are planned where no other way of the part fits.
MeshPart mesh_part(const MeshQuestion& question, Shard shard,
                   const std::function<void(std::size_t done, std::size_t all)>& told = {});
/// What meshes() says of the rows of all parts.
std::vector<SweepRow> joined_meshes(std::vector<SweepRow> rows);

}  // namespace gpuplan
