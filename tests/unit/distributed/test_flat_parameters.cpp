// FSDP1's flat parameters. What they allocate is compared with PyTorch in tests/parallel (scoreboard_parallel.cpp).
#include "estimator/distributed/flat_parameters.h"

#include <doctest/doctest.h>

#include "estimator/distributed/alike_ranks.h"
#include "estimator/plan/plan.h"
#include "layers/catalog.h"
#include "tools/options/run_options.h"
#include "tools/options/several_gpus.h"

namespace gpuplan {
namespace {

Strategy with_words(const std::string& gpus, const std::string& words) {
  SeveralGpusOptions o;
  o.gpus = gpus;
  o.fsdp = words;
  return *strategy_of(o);
}

// Linears of 784 x 515, 515 x 250 and 250 x 3, of which the first two are wrapped.
Plan uneven(const std::string& words, std::int64_t micro_batches = 1, std::int64_t rank = 0) {
  RunConfig run;
  run.batch = 8 * micro_batches;
  run.micro_batches = micro_batches;
  RunOptions options;
  options.model = GPUPLAN_SOURCE_DIR "/tests/parallel/models/uneven.yaml";
  Strategy s = with_words("8", words);
  s.unit_glob = "*";
  s.rank = rank;
  return make_plan(load_model(options), make_catalog(), run, nullptr, s);
}

std::vector<FlatParameter> flat_of(const Plan& plan) {
  return flat_parameters(plan.step.graph, plan.step.units, plan.step.strategy, plan.step.run);
}

TEST_CASE("a flat parameter is its module's parameters in a row, in as many equal parts as there are ranks") {
  const std::vector<FlatParameter> flat = flat_of(uneven("version=1"));
  REQUIRE_EQ(flat.size(), 3);
  CHECK_EQ(flat[1].elements, 784 * 515 + 515);
  CHECK_EQ(flat[1].shard_elements, (784 * 515 + 515 + 7) / 8);
  CHECK(flat[1].paddings.empty());
  CHECK_EQ(own_elements(flat[1], 7), 784 * 515 + 515 - 7 * flat[1].shard_elements);
}

TEST_CASE("with use_orig_params each parameter begins at 16 bytes, and the whole divides by the ranks") {
  // In bf16 8 elements: 515 x 250 = 128,750 is 6 above a multiple, and 128,752 + 250 is 6 below one of 8.
  const std::vector<FlatParameter> flat = flat_of(uneven("version=1,orig-params=true,param=bf16"));
  CHECK_EQ(flat[2].parameters[1].begin, 128'752);
  CHECK_EQ(flat[2].paddings, std::vector<std::int64_t>{2, 6});
  CHECK_EQ(flat[2].elements, 129'008);
  CHECK_EQ(own_elements(flat[2], flat[2].parameters[1], 6), 0);
  CHECK_EQ(own_elements(flat[2], flat[2].parameters[1], 7), 250);
}

TEST_CASE("the optimizer steps flat parameters, or what the rank has of each") {
  // Two states of 4 bytes an element.
  const auto state = [](const Plan& plan) { return plan.step.states.optimizer_state; };
  RunConfig run;
  const Plan flat = uneven("version=1");
  CHECK_EQ(state(flat), 0);  // SGD's
  CHECK_EQ(flat.step.states.parameters, (50'535 + 16'125 + 95) * 4);
  CHECK_EQ(flat.step.states.gradients, flat.step.states.parameters);
}

TEST_CASE("ranks differ in what use_orig_params has of each parameter, and else in what they pad") {
  const auto alike = [](const std::string& words) {
    const Plan plan = uneven(words);
    return alike_ranks(plan.step.graph, plan.step.run, plan.step.strategy);
  };
  // The last rank pads; and with use_orig_params it alone has the biases, and the others as much of the weights.
  const std::vector<AlikeRanks> last_differs = {{0, 1, 2, 3, 4, 5, 6}, {7}};
  CHECK_EQ(alike("version=1"), last_differs);
  CHECK_EQ(alike("version=1,orig-params=true"), last_differs);
}

TEST_CASE("words of --fsdp version=1 are FullyShardedDataParallel's, and are said again as they were") {
  for (const char* words : {"version=1", "version=1,strategy=grad-op,param=bf16,reduce=fp32,orig-params=true",
                            "version=1,strategy=none,prefetch=none", "version=1,prefetch=post,forward-prefetch=true",
                            "version=1,strategy=hybrid,replicate=2,buffer=bf16,sync-states=true,offload=true"})
    CHECK_EQ(fsdp_words(with_words("8", words)), words);
  SeveralGpusOptions nodes;
  nodes.gpus = "16";
  nodes.fsdp = "version=1,strategy=hybrid";
  CHECK_EQ(strategy_of(nodes)->replicas, 2);  // one a node of eight
  CHECK_FALSE(with_words("8", "version=2,param=bf16").flat);
}

TEST_CASE("what contradicts FSDP1, or is not planned with it, says the next door") {
  const auto refused = [](const std::string& words, const char* message, auto change) {
    SeveralGpusOptions o;
    o.gpus = "8";
    o.fsdp = words;
    change(o);
    CHECK_THROWS_WITH_AS(strategy_of(o), doctest::Contains(message), Error);
  };
  const auto as_it_is = [](SeveralGpusOptions&) {};
  refused("version=1,strateg=full", "did you mean \"strategy\"", as_it_is);
  refused("version=1,strategy=hybrd", "did you mean \"hybrid\"", as_it_is);
  refused("version=3", "not \"3\"", as_it_is);
  refused("version=1,reshard=false", "is FSDP2's", as_it_is);
  refused("version=1,orig-params=", "has no value", as_it_is);
  refused("version=1,offload=true,offload=true", "twice", as_it_is);
  refused("version=1,replicate=2", "needs strategy=hybrid", as_it_is);
  refused("version=1,strategy=hybrid", "no two nodes", as_it_is);
  refused("version=1", "--no-reshard is FSDP2's", [](SeveralGpusOptions& o) { o.keep_unsharded = true; });
  refused("version=1", "--tp is planned with FSDP2", [](SeveralGpusOptions& o) { o.tensor = "2"; });
  refused("version=1", "--cp is planned with FSDP2", [](SeveralGpusOptions& o) { o.context = "2"; });
  refused("version=1", "--zero ddp is not", [](SeveralGpusOptions& o) { o.zero = "ddp"; });
  CHECK_THROWS_WITH_AS(uneven("version=1,strategy=none,param=bf16", 2), doctest::Contains("NO_SHARD"), Error);
  CHECK_THROWS_WITH_AS(uneven("version=1,offload=true", 2), doctest::Contains("does not add up"), Error);
  CHECK_THROWS_WITH_AS(uneven("version=1,offload=true,sync=last", 2), doctest::Contains("no_sync()"), Error);
}

}  // namespace
}  // namespace gpuplan
