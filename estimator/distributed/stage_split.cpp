#include "estimator/distributed/stage_split.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

[[noreturn]] void refuse_split(std::string message, std::string help) {
  Error error(std::move(message), ErrorKind::usage);
  error.help(std::move(help));
  throw error;
}

}  // namespace

std::vector<std::int64_t> stages_of_rank(const Strategy& strategy) {
  std::vector<std::int64_t> stages;
  for (std::int64_t s = 0; s < strategy.stages(); ++s)
    if (strategy.place_of(s) == strategy.pipelining.stage) stages.push_back(s);
  return stages;
}

std::vector<std::int64_t> blocks_of_stages(std::int64_t blocks, const Strategy& strategy) {
  const std::int64_t stages = strategy.stages();
  std::vector<std::int64_t> each = strategy.pipelining.blocks;
  const bool ends = each.empty() && strategy.pipelining.counts_ends;
  if (each.empty()) {
    const std::int64_t all = blocks + (ends ? 2 : 0);
    for (std::int64_t s = 0; s < stages; ++s) each.push_back(all / stages + (s < all % stages ? 1 : 0));
  }
  if (ends) {  // torchtitan's _generate_llm_fqn_per_model_part
    each.front() -= 1;
    each.back() -= 1;
  }
  if (std::ssize(each) != stages || std::accumulate(each.begin(), each.end(), std::int64_t{0}) != blocks)
    refuse_split("split= has " + std::to_string(each.size()) + " numbers that add up to " +
                     std::to_string(std::accumulate(each.begin(), each.end(), std::int64_t{0})) + "; there are " +
                     std::to_string(stages) + " stages and " + std::to_string(blocks) + " blocks",
                 "leave out split= to share the blocks evenly");
  if (std::ranges::any_of(each, [](std::int64_t n) { return n < 1; })) {
    const std::int64_t most = blocks / strategy.pipeline;  // stages a rank
    const bool fewer = strategy.pipelining.stages_each > 1 && most > 0;
    refuse_split(
        "a stage without blocks: " + std::to_string(stages) + " stages of " + std::to_string(blocks) + " blocks",
        fewer
            ? "--pp-schedule " + std::string(name_of(strategy.pipelining.schedule)) + ",stages=" + std::to_string(most)
            : "--pp " + std::to_string(std::max<std::int64_t>(blocks, 1)) + " at the most");
  }
  return each;
}

std::vector<std::int64_t> kinds_of_stages(std::int64_t blocks, const Strategy& strategy) {
  const std::vector<std::int64_t> each = blocks_of_stages(blocks, strategy);
  std::vector<std::int64_t> kinds = {0};
  std::set<std::vector<std::int64_t>> known;
  Strategy rank = strategy;
  for (std::int64_t s = 1; s + 1 < strategy.pipeline; ++s) {
    rank.pipelining.stage = s;
    std::vector<std::int64_t> own;
    for (const std::int64_t stage : stages_of_rank(rank)) own.push_back(each[index(stage)]);
    if (known.insert(std::move(own)).second) kinds.push_back(s);
  }
  kinds.push_back(strategy.pipeline - 1);
  return kinds;
}

}  // namespace gpuplan
