#include "estimator/distributed/tensor_plan.h"

#include <doctest/doctest.h>

#include "estimator/base/error.h"
#include "estimator/plan/plan.h"
#include "layers/catalog.h"
#include "tests/support/zoo_models.h"
#include "tools/options/run_options.h"

namespace gpuplan {
namespace {

Model shared_model(const std::string& name, std::int64_t ranks) {
  RunOptions options;
  options.model = "zoo:" + name;
  for (const Variable& part : divided_variables(load_model(options), ranks))
    options.set.push_back(part.name + "=" + std::to_string(part.value));
  return load_model(options);
}

std::int64_t parameters_of(const Graph& graph) {
  std::int64_t elements = 0;
  for (const ParameterTensor& p : graph.parameters) elements += graph.tensor(p.tensor).shape.elements();
  return elements;
}

TEST_CASE("tensor parallelism is of decoders with transformers' names") {
  for (const char* name : {"llama2_7b", "llama3_70b", "mistral_7b", "mixtral_8x7b", "qwen2_0_5b", "gemma_2b"})
    CHECK(has_tensor_plan(zoo_model(name)));
  for (const char* name : {"gpt2", "opt_125m", "vit_base", "resnet50", "mlp"})
    CHECK_FALSE(has_tensor_plan(zoo_model(name)));
}

TEST_CASE("heads, those of keys and values, and the width of the MLP are divided") {
  const std::vector<Variable> parts = divided_variables(zoo_model("llama3_8b"), 4);
  REQUIRE_EQ(parts.size(), 3);
  CHECK_EQ(parts[0].name, "heads");
  CHECK_EQ(parts[0].value, 32 / 4);
  CHECK_EQ(parts[1].value, 8 / 4);
  CHECK_EQ(parts[2].value, 14336 / 4);
  CHECK_THROWS_AS((void)divided_variables(zoo_model("llama3_8b"), 16), Error);  // 8 heads of keys and values
  CHECK_THROWS_AS((void)divided_variables(zoo_model("llama3_8b"), 3), Error);
}

TEST_CASE("a rank has its part of every matrix and all of each norm") {
  // Llama 3 8B: 8,030,261,248 parameters, of which 65 norms of 4,096 are whole on each of 4 ranks.
  RunConfig run;
  run.tensor_ranks = 4;
  run.batch = 1;
  run.optimizer.kind = OptimizerKind::adamw;
  Strategy strategy;
  strategy.gpus = strategy.tensor = 4;
  strategy.data = DataParallel::ddp;
  strategy = with_shared_layers(strategy, {}, run);
  CHECK_EQ(strategy.data, DataParallel::none);
  CHECK_EQ(run.optimizer.impl, OptimizerImpl::for_loop);
  const Plan plan = make_plan(shared_model("llama3_8b", 4), make_catalog(), run, nullptr, strategy);
  constexpr std::int64_t kNorms = 65 * 4096;
  CHECK_EQ(parameters_of(plan.step.graph), (8'030'261'248 - kNorms) / 4 + kNorms);
}

TEST_CASE("what PyTorch refuses with tensor parallelism, or what was not recorded, is refused") {
  Strategy strategy;
  strategy.gpus = 4;
  strategy.tensor = 2;
  strategy.data = DataParallel::ddp;
  RunConfig run;
  const auto refused = [&](const RunConfig& asked, GivenFlags given = {}) {
    RunConfig changed = asked;
    CHECK_THROWS_AS((void)with_shared_layers(strategy, given, changed), Error);
  };
  refused(run);  // DDP over the other ranks
  strategy.data = DataParallel::fsdp;
  RunConfig plain = run;
  CHECK_EQ(with_shared_layers(strategy, {}, plain).data, DataParallel::fsdp);
  RunConfig amp = run;
  amp.autocast = DType::bf16;
  refused(amp);
  RunConfig clipped = run;
  clipped.clip_grad_norm = true;
  refused(clipped);
  strategy.gpus = 2;
  strategy.data = DataParallel::none;
  refused(run, {.data_parallel = false, .optimizer_impl = true});  // foreach of tensors beside DTensors
  RunConfig adamax = run;
  adamax.optimizer.kind = OptimizerKind::adamax;
  refused(adamax);
}

}  // namespace
}  // namespace gpuplan
