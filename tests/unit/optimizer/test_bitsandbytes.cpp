// bitsandbytes' optimizers: the states that its constructors make, counted by hand (bitsandbytes/optim/optimizer.py).
// Whole steps are in tests/recorded/fine_tuning.
#include <doctest/doctest.h>

#include <numeric>
#include <vector>

#include "estimator/optimizer/optimizer.h"

namespace gpuplan {
namespace {

using Rule = BitsandbytesOptimizer::Rule;

OptimizerProgram step_of(BitsandbytesOptimizer of, const std::vector<OptimizerParameter>& parameters, bool first) {
  return optimizer_step(parameters, {.kind = OptimizerKind::none, .bitsandbytes = of}, kNewestPyTorch, assumed_gpu(),
                        first);
}

std::vector<std::int64_t> states_of(BitsandbytesOptimizer of, const std::vector<OptimizerParameter>& parameters) {
  std::vector<std::int64_t> bytes;
  for (const OptimizerEvent& e : step_of(of, parameters, true).events)
    if (e.kind == OptimizerEvent::Kind::alloc_state) bytes.push_back(e.bytes);
  return bytes;
}

}  // namespace

TEST_CASE("states of 8 bits have a scale every 256 elements, and two tables of 256 values an optimizer") {
  const std::vector<std::int64_t> expected{1024, 1024, 4097, 4097, 4 * 17, 4 * 17, 8192, 8192, 4 * 32, 4 * 32};
  CHECK(states_of({Rule::adamw, true}, {{4097}, {8192}}) == expected);
}

TEST_CASE("a parameter below 4096 elements has states of fp32, and no table is made for it") {
  CHECK(states_of({Rule::adamw, true}, {{4095}}) == std::vector<std::int64_t>{4 * 4095, 4 * 4095});
  CHECK(states_of({Rule::adam, false}, {{8192, DType::bf16}}) == std::vector<std::int64_t>{4 * 8192, 4 * 8192});
}

TEST_CASE("lion has one state, ademamix three, whose scales are made first") {
  CHECK(states_of({Rule::lion, true}, {{8192}}) == std::vector<std::int64_t>{1024, 8192, 4 * 32});
  CHECK(states_of({Rule::ademamix, true}, {{8192}}) ==
        std::vector<std::int64_t>{1024, 1024, 2 * 4 * 32, 4 * 32, 2 * 8192, 8192});
  CHECK(states_of({Rule::ademamix, false}, {{8192}}) == std::vector<std::int64_t>{2 * 4 * 8192, 4 * 8192});
}

TEST_CASE("paged states of 100,000 elements are managed memory, their scales are not") {
  const std::vector<OptimizerParameter> parameters{{100'000}, {99'999}};
  CHECK(states_of({Rule::adamw, true, true}, parameters) ==
        std::vector<std::int64_t>{1024, 1024, 4 * 391, 4 * 391, 99'999, 99'999, 4 * 391, 4 * 391});
  const OptimizerConfig config{.kind = OptimizerKind::none,
                               .bitsandbytes = BitsandbytesOptimizer{Rule::adamw, true, true}};
  CHECK(managed_bytes(parameters, config) == 2 * 100'000);
  CHECK(managed_bytes(parameters, {.kind = OptimizerKind::adamw}) == 0);
}

TEST_CASE("a later step makes no states") {
  for (const Rule rule : {Rule::adam, Rule::lion, Rule::ademamix, Rule::sgd, Rule::adagrad})
    CHECK(step_of({rule, true}, {{8192}}, false).events.empty());
}

TEST_CASE("lamb's norm of a parameter in half precision is of a copy in fp32") {
  const OptimizerProgram step = step_of({Rule::lamb, false}, {{1000, DType::bf16}}, false);
  REQUIRE(step.events.size() == 4);
  CHECK(step.events[0].bytes == 4000);
  CHECK(step.events[1].bytes == 4);
}

}  // namespace gpuplan
