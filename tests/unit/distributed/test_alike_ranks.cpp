#include "estimator/distributed/alike_ranks.h"

#include <doctest/doctest.h>

#include "estimator/plan/plan.h"
#include "layers/catalog.h"
#include "tools/options/run_options.h"

namespace gpuplan {
namespace {

TEST_CASE("ranks with parts of the same sizes are alike") {
  RunConfig run;
  run.batch = 8;
  RunOptions options;
  options.model = GPUPLAN_SOURCE_DIR "/tests/parallel/models/uneven.yaml";  // rows of 515, 250 and 3
  const Plan plan = make_plan(load_model(options), make_catalog(), run, nullptr);
  const auto alike = [&](DataParallel data, std::int64_t replicas = 1) {
    Strategy s;
    s.data = data;
    s.gpus = 8;
    s.replicas = replicas;
    return alike_ranks(plan.step.graph, run, s);
  };
  CHECK_EQ(alike(DataParallel::ddp), std::vector<AlikeRanks>{{0, 1, 2, 3, 4, 5, 6, 7}});
  // 65 rows of 515 on seven ranks and 60 on the last; 32 of 250 on seven and 26; 3 rows on three.
  CHECK_EQ(alike(DataParallel::fsdp), std::vector<AlikeRanks>{{0, 1, 2}, {3, 4, 5, 6}, {7}});
  // Two replicas of four shards: 129, 129, 129, 128; 63, 63, 63, 61; 1, 1, 1, 0.
  CHECK_EQ(alike(DataParallel::fsdp, 2), std::vector<AlikeRanks>{{0, 1, 2, 4, 5, 6}, {3, 7}});
}

}  // namespace
}  // namespace gpuplan
