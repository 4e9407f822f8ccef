// `lora:` in a spec, and the adapters that it puts beside layers. Memory is checked against recordings of peft
// (tests/shadow/results, lora_*); here are its rules, with counts derived by hand.
#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "estimator/plan/plan.h"
#include "estimator/spec/canonical.h"
#include "estimator/spec/read.h"
#include "layers/catalog.h"
#include "tests/support/zoo_models.h"

namespace gpuplan {
namespace {

Model model_of(const std::string& text, std::vector<Variable> set = {}) {
  auto source = std::make_shared<Source>();
  source->name = "model.yaml";
  source->text = text;
  SpecOptions options;
  options.set = std::move(set);
  return read_model(source, options);
}

const std::string kMlp =
    "gpuplan: 1\nvars: {r: 8}\n"
    "input: {shape: [784]}\n"
    "layers:\n"
    "  - fc1: Linear(784, 512)\n"
    "  - ReLU()\n"
    "  - fc2: Linear(512, 10)\n";

Report plan_of(const std::string& text, RunConfig run = {}) { return plan(model_of(text), make_catalog(), run); }

std::string error_of(const std::string& lora) {
  try {
    (void)plan_of(kMlp + "lora: " + lora + "\n");
  } catch (const Error& e) {
    return e.message();
  }
  return "";
}

}  // namespace

TEST_CASE("lora trains two matrices of its rank beside a target and nothing else") {
  RunConfig run;
  run.optimizer.kind = OptimizerKind::adam;
  const Report r = plan_of(kMlp + "lora: {rank: 8, targets: [fc1]}\n", run);
  const std::int64_t base = 784 * 512 + 512 + 512 * 10 + 10;
  const std::int64_t adapter = 8 * 784 + 512 * 8;
  CHECK(r.model.parameters == base + adapter);
  CHECK(r.model.trainable_parameters == adapter);
  CHECK(r.bytes.gradients == 4 * adapter);
  CHECK(r.bytes.optimizer_state == 8 * adapter);
}

TEST_CASE("adapters of a half-precision model are fp32") {
  RunConfig run;
  run.precision = DType::bf16;
  const Report r = plan_of(kMlp + "lora: {rank: 8, targets: [fc1]}\n", run);
  CHECK(r.bytes.parameters == 2 * (784 * 512 + 512 + 512 * 10 + 10) + 4 * (8 * 784 + 512 * 8));
}

TEST_CASE("a frozen weight's product does not save its input") {
  // The first layer's input is saved by lora_A alone (784 * 4 bytes), with what lora_A gives to lora_B (8 * 4), the
  // result of relu (512 * 4) for its own backward, and the log-probabilities (10 * 4) and the total weight (4).
  const Report r = plan_of(kMlp + "lora: {rank: 8, targets: [fc1]}\n");
  CHECK(r.bytes.saved_for_backward == 8 * 4 + 512 * 4 + 10 * 4 + 4);
}

TEST_CASE("a target is the end of a path, or a pattern of the whole") {
  CHECK(plan_of(kMlp + "lora: {targets: [fc1, fc2]}\n").model.trainable_parameters == 8 * (784 + 512) + 8 * (512 + 10));
  CHECK(plan_of(kMlp + "lora: {targets: [\"fc?\"]}\n").model.trainable_parameters == 8 * (784 + 512) + 8 * (512 + 10));
  CHECK(plan_of(kMlp + "lora: {targets: [\"**\"]}\n").model.trainable_parameters == 8 * (784 + 512) + 8 * (512 + 10));
}

TEST_CASE("all-linear is every linear layer but the last one, the head") {
  CHECK(plan_of(kMlp + "lora: {targets: [all-linear]}\n").model.trainable_parameters == 8 * (784 + 512));
  RunConfig run;
  run.lora = Lora{.targets = {"all-linear"}};
  CHECK(plan_of(kMlp, run).model.trainable_parameters == 8 * (784 + 512));
}

TEST_CASE("what peft would adapt of stacked experts is refused, and the attention's layers named") {
  const std::string moe =
      "gpuplan: 1\nname: moe\ninput: {shape: [16, 64]}\nblocks:\n  Experts:\n    layers:\n"
      "      - gate_up_proj: Parameter(4, 64, 64)\n      - {op: \"MatMul()\", from: [input, gate_up_proj]}\n"
      "  Mixture:\n    layers:\n      - View(-1, 1, 16, 64)\n      - experts: {block: Experts}\n      - Sum(1)\n"
      "  Attention:\n    layers:\n      - q_proj: Linear(64, 64)\n"
      "  Layer:\n    layers:\n      - self_attn: {block: Attention}\n      - mlp: {block: Mixture}\n"
      "layers:\n  - layers.0: {block: Layer}\n  - head: Linear(64, 10)\n";
  RunConfig run;
  run.lora = Lora{.rank = 8, .targets = {"all-linear"}};
  const std::string refusal =
      "--lora: for the target all-linear peft adapts the experts' stacked weights (layers.0.mlp.experts.gate_up_proj), "
      "which gpuplan has no rules for";
  CHECK_THROWS_WITH_AS(plan_of(moe, run), refusal.c_str(), Error);
  run.lora->targets = {"q_proj"};
  CHECK(plan_of(moe, run).model.trainable_parameters == 8 * (64 + 64));
}

TEST_CASE("--lora of a model with adapters of its own, and of none of its layers, is refused") {
  RunConfig run;
  run.lora = Lora{.targets = {"all-linear"}};
  CHECK_THROWS_WITH_AS(plan_of(kMlp + "lora: {targets: [fc1]}\n", run),
                       "--lora: the model has adapters of its own (lora:)", Error);
  run.lora = Lora{.targets = {"fc3"}};
  CHECK_THROWS_AS(plan_of(kMlp, run), Error);
}

TEST_CASE("what a spec says that it was compared with does not hold with other adapters or weights") {
  const std::string compared = kMlp + "verified: \"equal to PyTorch 2.15\"\n";
  CHECK(plan_of(compared).model.verified == "equal to PyTorch 2.15");
  RunConfig run;
  run.lora = Lora{.targets = {"all-linear"}};
  CHECK(plan_of(compared, run).model.verified.empty());
}

TEST_CASE("QLoRA trains the adapters beside packed weights, and casts the rest to fp32") {
  RunConfig run;
  run.weights = WeightFormat::nf4;
  run.lora = Lora{.targets = {"all-linear"}};
  const Report r = plan_of(kMlp, run);
  CHECK(r.model.parameters == 784 * 512 + 512 + 512 * 10 + 10 + 8 * (784 + 512));
  CHECK(r.model.trainable_parameters == 8 * (784 + 512));
  CHECK(r.bytes.parameters == 784 * 512 / 2 + 4 * (512 + 512 * 10 + 10 + 8 * (784 + 512)));
  for (const PeakPart& part : r.peak.parts)
    if (part.category == Category::parameters) CHECK(part.confidence == Confidence::exact);
}

TEST_CASE("the rank may be a variable of the model") {
  const Model model = model_of(kMlp + "lora: {rank: $r, alpha: 16, targets: [fc1]}\n", {{"r", 4}});
  REQUIRE(model.lora.has_value());
  CHECK(model.lora->rank == 4);
  CHECK(model.lora->alpha == 16);
}

TEST_CASE("lora survives the canonical form") {
  const Model model = model_of(kMlp + "lora: {rank: 4, alpha: 16, dropout: 0.1, targets: [fc1, \"**.fc2\"]}\n");
  const Model again = model_of(canonical_yaml(model));
  REQUIRE(again.lora.has_value());
  CHECK(again.lora->rank == 4);
  CHECK(again.lora->alpha == 16);
  CHECK(again.lora->dropout == 0.1);
  CHECK(again.lora->targets == std::vector<std::string>{"fc1", "**.fc2"});
}

TEST_CASE("lora refuses what peft would not find") {
  CHECK(error_of("{targets: [fc3]}").starts_with("no layer of the model is called \"fc3\""));
  CHECK(error_of("{targets: [\"*.fc?\"]}") == "no Linear or Conv1D layer's path is as \"*.fc?\"");
  CHECK(error_of("{targets: [\"1\"]}") == "the target 1 is ReLU");
  CHECK(error_of("{targets: []}") == "lora without a target");
  CHECK(error_of("{rank: 8}") == "lora needs targets:");
  CHECK(error_of("{targets: [fc1, fc1]}") == "\"fc1\" is named twice");
  CHECK(error_of("{dropout: 1.0, targets: [fc1]}") == "dropout is a probability");
  CHECK(error_of("{ranks: 8, targets: [fc1]}").starts_with("unknown key \"ranks\" in lora"));
  CHECK(error_of("{targets: [\"a b\"]}").find("cannot be a module's name") != std::string::npos);
}

TEST_CASE("the sum of a half-precision layer and its adapter is of the layer's type") {
  RunConfig run;
  run.precision = DType::bf16;
  run.mode = Mode::infer;
  run.batch = 4;
  const Report r = plan_of(kMlp + "lora: {targets: [fc2]}\n", run);
  CHECK(r.layers.back().output_bytes == 4 * 10 * 2);
}

}  // namespace gpuplan
