// Optimizers whose steps were recorded, with programs written by hand; tests/recorded/optimizers has PyTorch's own.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "estimator/optimizer/recorded_optimizer.h"
#include "estimator/plan/plan.h"
#include "estimator/spec/read.h"
#include "layers/catalog.h"
#include "tools/answers/explain_topics.h"
#include "tools/options/run_options.h"
#include "tools/python_models/python_optimizer.h"

namespace gpuplan {
namespace {

using Kind = OptimizerEvent::Kind;

constexpr std::int64_t kMiB = 1 << 20;

// A state of 1 MiB that each step makes anew, and what it is given.
class Momentum : public OptimizerRecorder {
 public:
  std::string name() const override { return "momentum.py:make"; }
  RecordedOptimizer record(std::span<const NamedParameter> parameters) const override {
    given.assign(parameters.begin(), parameters.end());
    RecordedOptimizer steps;
    steps.construction.events = {{Kind::alloc_state, 0, 2 * kMiB}};
    steps.first.events = {{Kind::alloc_state, 1, kMiB}};
    steps.steady.events = {
        {Kind::alloc_tensor, 2, 4 * kMiB}, {Kind::alloc_state, 1, kMiB}, {Kind::free_state, 1, 0}, {Kind::free, 2, 0}};
    return steps;
  }
  mutable std::vector<NamedParameter> given;
};

Report plan_with(const std::shared_ptr<const OptimizerRecorder>& recorder, RunConfig run = {}) {
  auto source = std::make_shared<Source>();
  source->name = "mlp.yaml";
  source->text =
      "gpuplan: 1\ninput: {shape: [64]}\nlayers:\n  - fc1: Linear(64, 32)\n  - fc2: Linear(32, 8, bias=false)\n";
  run.optimizer.kind = OptimizerKind::none;
  run.optimizer.recorder = recorder;
  run.loop = Loop::function;
  return plan(read_model(source), make_catalog(), run);
}

const PhaseRow& row(const Report& r, Phase phase, bool steady) {
  return *std::ranges::find_if(r.phases, [&](const PhaseRow& p) { return p.steady == steady && p.phase == phase; });
}

}  // namespace

TEST_CASE("a state that a step makes anew takes the place of the one before") {
  const auto recorder = std::make_shared<Momentum>();
  const Report r = plan_with(recorder);
  CHECK(r.bytes.optimizer_state == 3 * kMiB);
  constexpr std::int64_t kResults = 4 * 8 + 4;  // the output and the loss, which are gone before the step
  const std::int64_t before = row(r, Phase::backward, true).live.requested_bytes - kResults;
  CHECK(row(r, Phase::optimizer, true).live.requested_bytes == before);
  CHECK(row(r, Phase::optimizer, true).peak.requested_bytes == before + 5 * kMiB);
  const std::int64_t first = row(r, Phase::backward, false).live.requested_bytes - kResults;
  CHECK(row(r, Phase::optimizer, false).live.requested_bytes == first + kMiB);
}

TEST_CASE("an optimizer is recorded with the parameters that it is given, by name") {
  const auto recorder = std::make_shared<Momentum>();
  (void)plan_with(recorder);
  REQUIRE(recorder->given.size() == 3);
  CHECK(recorder->given[0].name == "fc1.weight");
  CHECK(recorder->given[0].shape == Shape({32, 64}));
  CHECK(recorder->given[1].name == "fc1.bias");
  CHECK(recorder->given[2].name == "fc2.weight");
  CHECK(recorder->given[2].has_gradient);
}

TEST_CASE("what was recorded is of a plain loop on the GPU") {
  for (bool RunConfig::*const saver : {&RunConfig::offload_optimizer, &RunConfig::optimizer_in_backward}) {
    RunConfig run;
    run.*saver = true;
    CHECK_THROWS_AS((void)plan_with(std::make_shared<Momentum>(), run), Error);
  }
}

TEST_CASE("states are counted until another takes their place") {
  OptimizerProgram first, second;
  first.events = {{Kind::alloc_state, 0, 100}, {Kind::alloc_state, 1, 1000}, {Kind::alloc_tensor, 2, 50}};
  second.events = {{Kind::alloc_state, 0, 300}, {Kind::free_state, 0, 0}};
  const OptimizerProgram* const programs[] = {&first, &second};
  CHECK(state_bytes(programs) == 1300);
  CHECK(state_bytes(programs, 512) == 512 + 1024);
}

TEST_CASE("--opt with a class, a function or several optimizers is recorded") {
  for (const char* text :
       {"adafactor", "torch.optim.Muon", "optim.py:make", "adamw(capturable=True)", "muon:matrices,adamw:rest"})
    CHECK(is_recorded_optimizer(text));
  for (const char* text : {"adamw", "adamw8bit", "adamx", ""}) CHECK(!is_recorded_optimizer(text));
  CHECK(file_of_optimizer("muon:matrices,lib/optim.py:make:rest") == "lib/optim.py");
  CHECK(file_of_optimizer("optim.py:make(rank=64)") == "optim.py");
  CHECK(file_of_optimizer("muon:matrices,adamw:rest").empty());
}

TEST_CASE("the explanation of optimizers has every name that --opt takes") {
  const auto topic = std::ranges::find(explain_topics(), "optimizers", &ExplainTopic::name);
  REQUIRE(topic != explain_topics().end());
  for (const std::string& name : optimizer_names()) {
    CAPTURE(name);
    CHECK(std::ranges::any_of(std::string_view(",;\n"),
                              [&](char end) { return topic->text.find(" " + name + end) != std::string_view::npos; }));
  }
}

}  // namespace gpuplan
