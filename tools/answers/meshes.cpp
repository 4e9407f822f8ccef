#include "tools/answers/meshes.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/search/workers.h"
#include "tools/answers/fitting_first.h"
#include "tools/answers/mesh_planner.h"

namespace gpuplan {
namespace {

std::vector<MeshWay> all_ways(const MeshQuestion& question) {
  const std::int64_t gpus = strategy_of(question.several)->gpus, most = most_layers(question);
  std::vector<MeshWay> ways = ways_of_ranks(question);
  const auto add = [&](const std::vector<MeshWay>& more) { ways.insert(ways.end(), more.begin(), more.end()); };
  for (std::int64_t tensor = 2; tensor <= most; tensor *= 2) add(ways_of_layers(question, tensor));
  for (std::int64_t tensor = 1; tensor <= most; tensor *= 2)
    for (std::int64_t stages = 2; stages * tensor <= gpus; stages *= 2) add(ways_of_stages(question, stages, tensor));
  return ways;
}

}  // namespace

std::vector<SweepRow> meshes(const MeshQuestion& question,
                             const std::function<void(std::size_t done, std::size_t all)>& told) {
  if (question.run.gpu.empty())
    throw Error("--may needs one GPU", ErrorKind::usage).help("--gpu h100, or --gpu \"80 GB\"");
  std::vector<SweepRow> rows;
  std::optional<Error> first_refused;
  const auto plan = [&](const std::vector<MeshWay>& ways) {
    const std::size_t before = rows.size();
    rows.resize(before + ways.size());
    run_on_workers(
        ways.size(), cores(),
        [&](std::size_t i) {
          SweepRow& row = rows[before + i];
          try {
            PlannedWay planned = planned_way(question, ways[i]);
            row.values = {flags_of(question, planned)};
            row.figures = std::move(planned.figures);
          } catch (const Error& e) {
            row.error = e.message();
            if (before + i == 0) first_refused = e;
          }
        },
        [&](std::size_t done) {
          if (told) told(before + done, rows.size());
        });
  };
  const auto fits = [](const SweepRow& row) { return row.figures && row.figures->fits; };
  plan(all_ways(question));
  if (std::ranges::none_of(rows, fits)) plan(ways_of_context(question));
  if (first_refused && std::ranges::none_of(rows, [](const SweepRow& row) { return row.figures.has_value(); }))
    throw Error(*first_refused);
  return fitting_first(std::move(rows));
}

}  // namespace gpuplan
