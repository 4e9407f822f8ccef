// --like: the loops of trainers. Whole steps are in tests/recorded/trainers; here is what their rules say of small
// models, counted by hand.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "estimator/base/error.h"
#include "estimator/plan/plan.h"
#include "estimator/spec/read.h"
#include "layers/catalog.h"
#include "tools/options/run_options.h"

namespace gpuplan {
namespace {

RunConfig run_of(const std::string& like, const std::string& amp = "", const std::string& optimizer = "") {
  RunOptions options;
  options.like = like;
  options.amp = amp;
  options.optimizer = optimizer;
  options.batch = "4";
  return run_config(options);
}

Report plan_of(const std::string& layers, const RunConfig& run) {
  auto source = std::make_shared<Source>();
  source->name = "model.yaml";
  source->text = "gpuplan: 1\n" + layers;
  return plan(read_model(source), make_catalog(), run);
}

const char* const kClassifier = "input: {shape: [64]}\nlayers: [\"Linear(64, 1000)\"]\n";

const PhaseRow& row(const Report& r, Phase phase) {
  return *std::ranges::find_if(r.phases, [&](const PhaseRow& p) { return p.steady && p.phase == phase; });
}

}  // namespace

TEST_CASE("--like trainer has TrainingArguments' defaults") {
  const RunConfig run = run_of("trainer");
  CHECK(run.loop == Loop::loss_only);
  CHECK(run.clip_grad_norm);
  CHECK(run.optimizer.kind == OptimizerKind::adamw);
  CHECK(run.optimizer.impl == OptimizerImpl::fused);
  CHECK(run_of("trainer", "", "sgd").optimizer.kind == OptimizerKind::sgd);
  CHECK(run_of("accelerate").loop == Loop::plain);
  CHECK(run_of("lightning").loop == Loop::loss_only);
}

TEST_CASE("--like and --loop exclude each other where the loop is the trainer's") {
  RunOptions options;
  options.like = "lightning";
  options.loop = "plain";
  CHECK_THROWS_AS((void)run_config(options), Error);
}

TEST_CASE("accelerate holds the output in fp32 under autocast") {
  // 4 x 1000 logits of 2 bytes, and of 4 once they are converted.
  const Report own = plan_of(kClassifier, run_of("pytorch", "bf16"));
  const Report accelerate = plan_of(kClassifier, run_of("accelerate", "bf16"));
  const std::int64_t logits = 4 * 1000;
  // The loss that is divided is a local name of backward(); the one that is held stands for it.
  CHECK(row(accelerate, Phase::optimizer).live.requested_bytes - row(own, Phase::optimizer).live.requested_bytes ==
        (4 - 2) * logits);
}

TEST_CASE("Lightning zeroes gradients after the forward") {
  const std::int64_t gradients = 4 * (64 * 1000 + 1000);
  const Report own = plan_of(kClassifier, run_of("pytorch"));
  const Report lightning = plan_of(kClassifier, run_of("lightning"));
  CHECK(row(lightning, Phase::start).live.requested_bytes == row(lightning, Phase::end).live.requested_bytes);
  CHECK(row(lightning, Phase::start).live.requested_bytes - row(own, Phase::start).live.requested_bytes ==
        gradients - (4 * 1000 * 4 + 4));  // a plain loop's names have the last output and loss
}

TEST_CASE("Trainer keeps the states of embeddings in 32 bits") {
  const std::string embeds = "input: {shape: [8], dtype: int64}\nlayers: [\"Embedding(100, 64)\"]\n";
  // 6400 elements: two states, of 4 bytes instead of one with a scale every 256, and no tables of 256 values.
  const std::int64_t wide = plan_of(embeds, run_of("trainer", "", "adamw8bit")).bytes.optimizer_state;
  const std::int64_t narrow = plan_of(embeds, run_of("pytorch", "", "adamw8bit")).bytes.optimizer_state;
  CHECK(wide == 2 * 4 * 6400);
  CHECK(narrow == 2 * (6400 + 4 * 25 + 1024));
}

}  // namespace gpuplan
