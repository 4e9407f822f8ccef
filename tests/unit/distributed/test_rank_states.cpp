// What ranks hold of parameters that are not stored as their shape says: adapters, 4-bit weights, flattened ones.
#include <doctest/doctest.h>

#include <algorithm>

#include "estimator/plan/plan.h"
#include "layers/catalog.h"
#include "tests/support/zoo_models.h"

namespace gpuplan {
namespace {

Strategy shared(DataParallel data, std::int64_t gpus) {
  Strategy strategy;
  strategy.data = data;
  strategy.gpus = gpus;
  return strategy;
}

RunConfig run_of(std::int64_t batch, DType precision) {
  RunConfig run;
  run.batch = batch;
  run.precision = precision;
  run.optimizer.kind = OptimizerKind::adamw;
  return run;
}

Report planned(const char* model, const RunConfig& run, const Strategy& strategy) {
  return report_of(make_plan(zoo_model(model), make_catalog(), run, nullptr, strategy));
}

RunConfig qlora(std::int64_t batch, DType precision) {
  RunConfig run = run_of(batch, precision);
  run.lora = Lora{.rank = 8, .targets = {std::string(kAllLinear)}};
  run.weights = WeightFormat::nf4;
  return run;
}

// Qwen2 0.5B: 494,032,768 parameters. Matrices of each of its 24 blocks: 896 x (2 x 896 + 2 x 128 + 3 x 4,864).
constexpr std::int64_t kQwen = 494'032'768, kInMatrices = 24LL * 896 * (2 * 896 + 2 * 128 + 3 * 4864);

TEST_CASE("weights that cuDNN keeps in one storage are shared each by itself") {
  const std::int64_t bytes =
      4 * report_of(make_plan(zoo_model("lstm_lm"), make_catalog(), run_of(4, DType::fp32), nullptr)).model.parameters;
  const StateBytes ddp = planned("lstm_lm", run_of(4, DType::fp32), shared(DataParallel::ddp, 4)).rank->states;
  CHECK_EQ(ddp.parameters, bytes);
  CHECK_EQ(ddp.gradients, bytes);
  const StateBytes fsdp = planned("lstm_lm", run_of(4, DType::fp32), shared(DataParallel::fsdp, 4)).rank->states;
  CHECK_EQ(fsdp.parameters, bytes / 4);  // every first dimension is a multiple of 4
}

TEST_CASE("adapters of a model in half precision are held in fp32") {
  RunConfig run = run_of(4, DType::bf16);
  run.lora = Lora{.rank = 8, .targets = {std::string(kAllLinear)}};
  const Report ddp = planned("qwen2_0_5b", run, shared(DataParallel::ddp, 4));
  const std::int64_t adapters = ddp.model.parameters - kQwen;
  CHECK_EQ(ddp.rank->states.gradients, 4 * adapters);
  CHECK_EQ(ddp.rank->states.parameters, 2 * kQwen + 4 * adapters);
  const Report fsdp = planned("qwen2_0_5b", run, shared(DataParallel::fsdp, 4));
  CHECK_EQ(fsdp.rank->states.gradients, adapters);  // 8 rows or more, of 4 ranks
}

TEST_CASE("4-bit weights are shared as they are stored, whatever a policy gathers in") {
  const auto parameters = [](const RunConfig& run, const Strategy& strategy) {
    return planned("qwen2_0_5b", run, strategy).rank->states.parameters;
  };
  const RunConfig half = qlora(4, DType::bf16);
  const std::int64_t adapters = planned("qwen2_0_5b", half, shared(DataParallel::ddp, 4)).model.parameters - kQwen;
  const std::int64_t of_half = 2 * (kQwen - kInMatrices) + kInMatrices / 2 + 4 * adapters;
  const std::int64_t of_single = 4 * (kQwen - kInMatrices) + kInMatrices / 2 + 4 * adapters;
  CHECK_EQ(parameters(half, shared(DataParallel::ddp, 4)), of_half);
  CHECK_EQ(parameters(half, shared(DataParallel::fsdp, 4)), of_half / 4);
  Strategy policy = shared(DataParallel::fsdp, 4);
  policy.param_type = DType::bf16;
  CHECK_EQ(parameters(qlora(4, DType::fp32), policy), of_single / 4);
  CHECK_EQ(parameters(half, policy), of_half / 4);
}

TEST_CASE("DDP does not send the scales of 4-bit weights") {
  const Report report = planned("qwen2_0_5b", qlora(4, DType::bf16), shared(DataParallel::ddp, 4));
  const auto& rows = report.rank->communication;
  const auto buffers = std::ranges::find(rows, "buffers", &CommunicationRow::what);
  REQUIRE(buffers != rows.end());
  CHECK_EQ(buffers->bytes, 32 * 2 * 4);  // inv_freq and original_inv_freq of heads of 64
}

TEST_CASE("a block in which nothing is trained is a unit all the same") {
  RunConfig run = run_of(4, DType::bf16);
  run.lora = Lora{.rank = 8, .targets = {"layers.23.self_attn.q_proj"}};
  const Report report = planned("qwen2_0_5b", run, shared(DataParallel::fsdp, 4));
  CHECK_EQ(report.rank->wrapped, 24);
  const auto& rows = report.rank->communication;
  const auto forward = std::ranges::find(rows, "parameters, forward", &CommunicationRow::what);
  const auto backward = std::ranges::find(rows, "parameters, backward", &CommunicationRow::what);
  REQUIRE(forward != rows.end());
  REQUIRE(backward != rows.end());
  CHECK_LT(backward->bytes, forward->bytes / 24);  // of the last block alone
}

}  // namespace
}  // namespace gpuplan
