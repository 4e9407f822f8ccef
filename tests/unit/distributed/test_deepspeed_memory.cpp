#include "estimator/distributed/deepspeed_memory.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "estimator/plan/plan.h"
#include "layers/catalog.h"
#include "tools/options/run_options.h"

namespace gpuplan {
namespace {

TEST_CASE("a rank's part of the flat parameters may begin and end within a parameter") {
  RunConfig run;
  run.batch = 4;
  RunOptions options;
  options.model = GPUPLAN_SOURCE_DIR "/tests/parallel/models/mlp.yaml";
  const Plan plan = make_plan(load_model(options), make_catalog(), run, nullptr);
  // 784 x 512 + 512, 512 x 256 + 256, 256 x 10 + 10: 535,818 elements, padded to a multiple of 2 * 4.
  const FlatPart first = flat_part(plan.step.graph, 4, 0);
  CHECK_EQ(first.elements, 535'824 / 4);
  CHECK_EQ(first.all_elements, 535'824);
  REQUIRE_EQ(first.parameters.size(), 1);
  CHECK_EQ(first.parameters[0].elements, 133'956);
  CHECK_EQ(first.padding, 0);
  // The last one begins at element 401,868, 52 before the first bias ends.
  const FlatPart last = flat_part(plan.step.graph, 4, 3);
  REQUIRE_EQ(last.parameters.size(), 5);
  CHECK_EQ(last.parameters[0].parameter, 1);
  CHECK_EQ(last.parameters[0].elements, 52);
  CHECK_EQ(last.parameters[1].elements, 512 * 256);
  CHECK_EQ(last.padding, 6);
}

TEST_CASE("with its optimizer on the host a rank of stage 2 has the model, and room for the largest gradient") {
  RunConfig run;
  run.batch = 4;
  run.precision = DType::bf16;
  RunOptions options;
  options.model = GPUPLAN_SOURCE_DIR "/tests/parallel/models/mlp.yaml";
  Strategy strategy;
  strategy.data = DataParallel::zero2;
  strategy.gpus = 4;
  strategy.offloads = true;
  const Plan plan = make_plan(load_model(options), make_catalog(), run, nullptr, strategy);
  CHECK_EQ(plan.step.states.parameters, 535'824 * 2);
  CHECK_EQ(plan.step.states.gradients, 0);
  CHECK_EQ(plan.step.states.optimizer_state, 0);
  const std::vector<CollectiveEvent>& events = plan.step.collectives->events;
  const auto room = std::ranges::find_if(events, [](const CollectiveEvent& e) { return e.bytes == 784 * 512 * 2; });
  CHECK(room != events.end());
  run.precision = DType::fp32;  // by definition
  CHECK_THROWS_AS(make_plan(load_model(options), make_catalog(), run, nullptr, strategy), Error);
}

}  // namespace
}  // namespace gpuplan
