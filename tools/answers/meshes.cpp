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

std::vector<MeshWay> all_ways(const MeshQuestion& question, const Model& model) {
  const std::int64_t gpus = strategy_of(question.several)->gpus, most = most_layers(question);
  std::vector<MeshWay> ways = ways_of_ranks(question, model);
  const auto add = [&](const std::vector<MeshWay>& more) { ways.insert(ways.end(), more.begin(), more.end()); };
  for (std::int64_t tensor = 2; tensor <= most; tensor *= 2) add(ways_of_layers(question, model, tensor));
  for (std::int64_t tensor = 1; tensor <= most; tensor *= 2)
    for (std::int64_t stages = 2; stages * tensor <= gpus; stages *= 2)
      add(ways_of_stages(question, model, stages, tensor));
  return ways;
}

constexpr const char* kOthersFit = "others fit whole samples";

bool fits(const SweepRow& row) { return row.figures && row.figures->fits; }

// Those of `ways` that the part has, whose numbers begin with `first`.
void plan_part(const MeshQuestion& question, const std::vector<MeshWay>& ways, Shard shard, MeshPart& part,
               const std::function<void(std::size_t, std::size_t)>& told) {
  const std::size_t first = static_cast<std::size_t>(part.points), before = part.rows.size();
  part.points += static_cast<std::int64_t>(ways.size());
  for (std::size_t i = 0; i < ways.size(); ++i)
    if ((first + i) % shard.count == shard.number) {
      part.rows.emplace_back().point = static_cast<std::int64_t>(first + i);
      part.rows.back().values = {""};
    }
  run_on_workers(
      part.rows.size() - before, cores(),
      [&](std::size_t i) {
        SweepRow& row = part.rows[before + i];
        const MeshWay& way = ways[static_cast<std::size_t>(row.point) - first];
        row.values = {flags_of(way, "")};
        try {
          PlannedWay planned = planned_way(question, way);
          row.values = {flags_of(question, planned)};
          row.figures = std::move(planned.figures);
        } catch (const Error& e) {
          row.error = e.message();
          if (before + i == 0) part.refused = e;
        }
      },
      [&](std::size_t done) {
        if (told) told(before + done, part.rows.size());
      });
}

}  // namespace

std::vector<SweepRow> meshes(const MeshQuestion& question,
                             const std::function<void(std::size_t done, std::size_t all)>& told) {
  MeshPart whole = mesh_part(question, {}, told);
  const bool none = std::ranges::none_of(whole.rows, [](const SweepRow& row) { return row.figures.has_value(); });
  if (whole.refused && none) throw Error(*whole.refused);
  return joined_meshes(std::move(whole.rows));
}

MeshPart mesh_part(const MeshQuestion& question, Shard shard,
                   const std::function<void(std::size_t done, std::size_t all)>& told) {
  if (question.run.gpu.empty())
    throw Error("--may needs one GPU", ErrorKind::usage).help("--gpu h100, or --gpu \"80 GB\"");
  MeshPart part;
  const Model model = load_model(question.run);
  plan_part(question, all_ways(question, model), shard, part, told);
  const std::vector<MeshWay> contexts = ways_of_context(question, model);
  if (std::ranges::none_of(part.rows, fits)) {
    plan_part(question, contexts, shard, part, told);
    return part;
  }
  for (const MeshWay& way : contexts) {
    const std::int64_t point = part.points++;
    if (static_cast<std::size_t>(point) % shard.count != shard.number) continue;
    SweepRow& row = part.rows.emplace_back();
    row.point = point;
    row.values = {flags_of(way, "")};
    row.error = kOthersFit;
  }
  return part;
}

std::vector<SweepRow> joined_meshes(std::vector<SweepRow> rows) {
  const auto is_context = [](const SweepRow& row) { return row.values.front().starts_with("--cp "); };
  if (std::ranges::any_of(rows, [&](const SweepRow& row) { return !is_context(row) && fits(row); }))
    std::erase_if(rows, is_context);
  return fitting_first(std::move(rows));
}

}  // namespace gpuplan
