// Sequence and loss parallelism: which module lies how, what is sent, and what is refused.
#include <doctest/doctest.h>

#include "estimator/base/error.h"
#include "estimator/distributed/tensor_plan.h"
#include "estimator/graph/tensor_style.h"
#include "estimator/plan/plan.h"
#include "layers/catalog.h"
#include "tools/options/run_options.h"
#include "tools/options/tensor_words.h"

namespace gpuplan {
namespace {

Report report_with(const TensorPlan& tensor_plan, const char* tokens = "1024") {
  RunOptions options;
  options.model = GPUPLAN_SOURCE_DIR "/tests/parallel/models/llama.json";
  options.seq = tokens;
  for (const Variable& part : divided_variables(load_model(options), 2))
    options.set.push_back(part.name + "=" + std::to_string(part.value));
  RunConfig run;
  run.tensor_ranks = 2;
  run.batch = 2;
  run.optimizer.kind = OptimizerKind::adamw;
  Strategy strategy;
  strategy.gpus = strategy.tensor = 2;
  strategy.tensor_plan = tensor_plan;
  strategy.data = DataParallel::ddp;
  strategy = with_shared_layers(strategy, {}, run);
  const Gpu gpu = *gpu_called("h200");
  return report_of(make_plan(load_model(options), make_catalog(), run, &gpu, strategy));
}

std::int64_t bytes_of(const Report& report, std::string_view what) {
  for (const CommunicationRow& row : report.rank->communication)
    if (row.what == what) return row.bytes;
  return 0;
}

TEST_CASE("sequence parallelism names norms and modules beside the layers that are shared") {
  using enum TensorStyle;
  CHECK_EQ(tensor_style_of("model.layers.0.self_attn.q_proj", true), colwise);
  CHECK_EQ(tensor_style_of("model.layers.0.self_attn.q_norm", true), head_norm);
  CHECK_EQ(tensor_style_of("model.layers.0.input_layernorm", true), norm);
  CHECK_EQ(tensor_style_of("model.norm", true), norm);
  CHECK_EQ(tensor_style_of("model.layers.0.mlp", true), module);
  CHECK_EQ(tensor_style_of("model.norm", false), whole);
  CHECK_EQ(tensor_style_of("model.layers.0.mlp", false), whole);
}

// arXiv:2205.05198, section 4.2.2: an all-reduce is a reduce-scatter and an all-gather, so that sequence parallelism
// sends no more than tensor parallelism does. Of 6 blocks of 768, 2 x 1024 tokens in fp32: forward all-reduces of the
// embedding and of two products a block, 13 in all; each is scattered, and gathered for the next module or for the
// head.
TEST_CASE("what is gathered and scattered is what was reduced") {
  constexpr std::int64_t kStates = 4LL * 2 * 1024 * 768;
  const Report plain = report_with({}), sequence = report_with({.sequence = true, .loss = true});
  CHECK_EQ(bytes_of(plain, "activations, forward"), 13 * kStates);
  for (const char* what :
       {"tokens, forward", "sums of tokens, forward", "tokens, backward", "sums of tokens, backward"})
    CHECK_EQ(bytes_of(sequence, what), 13 * kStates);
  // Three numbers a token: the largest logit, the sum, and the target's.
  CHECK_EQ(bytes_of(sequence, "sums of the loss"), 3 * 4 * 2 * 1024);
  CHECK_EQ(bytes_of(sequence, "results of lm_head"), 0);
  const Report gathered = report_with({.sequence = true});
  CHECK_EQ(bytes_of(gathered, "results of lm_head"), 4LL * 2 * 1024 * 32000);
  CHECK_EQ(bytes_of(gathered, "tokens, forward"), 13 * kStates);
}

TEST_CASE("tokens that ranks do not divide are refused") {
  CHECK_NOTHROW((void)report_with({}, "1023"));
  CHECK_THROWS_WITH_AS((void)report_with({.sequence = true}, "1023"), doctest::Contains("1023 tokens"), Error);
}

TEST_CASE("--tp says how many ranks, and how what is between lies") {
  Strategy s;
  read_tensor("4,sequence,loss", s);
  CHECK_EQ(s.tensor, 4);
  CHECK(s.tensor_plan.sequence);
  CHECK(s.tensor_plan.loss);
  CHECK_EQ(tensor_words(s), "4,sequence,loss");
  const auto refused = [](const char* text, const char* words) {
    Strategy strategy;
    CHECK_THROWS_WITH_AS(read_tensor(text, strategy), doctest::Contains(words), Error);
  };
  refused("sequence", "how many ranks");
  refused("4,sequenc", "did you mean");
  refused("4,sequence,sequence", "twice");
  refused("4,loss", "with sequence parallelism");
  refused("1,sequence", "--tp 1 has one");
}

TEST_CASE("what parallelize_module's plan was not recorded with is refused") {
  Strategy strategy;
  strategy.gpus = 4;
  strategy.tensor = 2;
  strategy.tensor_plan.sequence = true;
  strategy.data = DataParallel::fsdp;
  const auto refused = [](const Strategy& asked, RunConfig run, const char* words) {
    CHECK_THROWS_WITH_AS((void)with_shared_layers(asked, {}, run), doctest::Contains(words), Error);
  };
  RunConfig old;
  old.pytorch = 208;
  refused(strategy, old, "as PyTorch 2.15 does it");
  RunConfig clipped;
  clipped.clip_grad_norm = true;
  CHECK_NOTHROW((void)with_shared_layers(strategy, {}, clipped));  // FSDP2 has summed them
  strategy.gpus = 2;
  strategy.data = DataParallel::none;
  refused(strategy, clipped, "clip-grad-norm");
}

}  // namespace
}  // namespace gpuplan
