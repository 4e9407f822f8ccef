// What saves training memory beside checkpointing: optimizers in backward, master weights, offloading to the host, and
// weights stored in narrow formats. The sequences are checked against recordings (tests/shadow/results, saving_*); here
// are the rules, with counts derived by hand.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "estimator/plan/plan.h"
#include "estimator/spec/read.h"
#include "layers/catalog.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kParameters = 784 * 512 + 512 + 512 * 10 + 10;

Report plan_mlp(const RunConfig& run) {
  auto source = std::make_shared<Source>();
  source->name = "mlp.yaml";
  source->text = "gpuplan: 1\ninput: {shape: [784]}\nlayers: [\"Linear(784, 512)\", \"ReLU()\", \"Linear(512, 10)\"]\n";
  return plan(read_model(source), make_catalog(), run);
}

RunConfig adam() {
  RunConfig run;
  run.batch = 4;
  run.optimizer.kind = OptimizerKind::adam;
  run.loop = Loop::function;
  return run;
}

std::int64_t live(const Report& r, Phase phase) {
  const auto row = std::ranges::find_if(r.phases, [&](const PhaseRow& p) { return p.steady && p.phase == phase; });
  return row->live.requested_bytes;
}

std::string error_of(const RunConfig& run) {
  try {
    (void)plan_mlp(run);
  } catch (const Error& e) {
    return e.kind() == ErrorKind::usage ? e.message() : "of another kind";
  }
  return "";
}

}  // namespace

TEST_CASE("an optimizer in backward leaves no gradient behind") {
  RunConfig run = adam();
  run.optimizer_in_backward = true;
  const Report r = plan_mlp(run);
  CHECK(r.bytes.gradients == 0);
  CHECK(r.bytes.optimizer_state == 8 * kParameters);
  CHECK(live(r, Phase::backward) == live(r, Phase::start) + 4 * 10 * 4 + 4);  // the output and the loss
}

TEST_CASE("master weights take 2 bytes for the parameter, 4 for its copy, 8 for Adam and 4 for the gradient stepped") {
  RunConfig run = adam();
  run.precision = DType::bf16;
  run.master_weights = true;
  const Report r = plan_mlp(run);
  CHECK(r.bytes.parameters == 2 * kParameters);
  CHECK(r.bytes.optimizer_state == 12 * kParameters);
  CHECK(r.bytes.gradients == 4 * kParameters);
  // Gradients of 2 bytes at the end of backward, of 4 at the end of the step.
  CHECK(live(r, Phase::backward) - live(r, Phase::start) == 2 * kParameters + 4 * 10 * 2 + 2);
  CHECK(live(r, Phase::end) - live(r, Phase::start) == 4 * kParameters);
}

TEST_CASE("an optimizer on the host leaves no state on the device, and its parameters and gradients cross the link") {
  RunConfig run = adam();
  run.offload_optimizer = true;
  const Report r = plan_mlp(run);
  CHECK(r.bytes.optimizer_state == 0);
  CHECK(r.offload_bytes_to_host == 4 * kParameters);
  CHECK(r.offload_bytes_from_host == 4 * kParameters);
}

TEST_CASE("saved tensors on the host leave the device after the forward, weights copied with them") {
  RunConfig run = adam();
  run.offload_saved = true;
  const Report r = plan_mlp(run);
  CHECK(live(r, Phase::forward) == live(r, Phase::start) + 4 * 10 * 4);
  // The first Linear saves its input, relu its result, the second Linear that again and its weight; log_softmax its
  // result, nll_loss that again, the int64 targets and the total weight.
  const std::int64_t saved =
      4 * 784 * 4 + 4 * 512 * 4 + (4 * 512 * 4 + 512 * 10 * 4) + 4 * 10 * 4 + (4 * 10 * 4 + 4 * 8 + 4);
  CHECK(r.offload_bytes_to_host == saved);
  CHECK(r.offload_bytes_from_host == saved);
}

TEST_CASE("nothing crosses the link unless asked for") {
  const Report r = plan_mlp(adam());
  CHECK(r.offload_bytes_to_host == 0);
  CHECK(r.offload_bytes_from_host == 0);
}

TEST_CASE("variants that exclude each other are refused") {
  RunConfig run = adam();
  run.optimizer_in_backward = true;
  run.clip_grad_norm = true;
  CHECK(error_of(run) == "an optimizer in backward frees each gradient before their norm is known");
  run.clip_grad_norm = false;
  run.autocast = DType::fp16;
  CHECK(error_of(run) == "an optimizer in backward steps before a GradScaler could look at all gradients");
  run = adam();
  run.master_weights = true;
  CHECK(error_of(run) == "master weights belong to a model in half precision, this one is fp32");
  run = adam();
  run.weights = WeightFormat::fp8;
  CHECK(error_of(run) == "weights in int4 or fp8 cannot be trained: they are for inference");
  run.weights = WeightFormat::nf4;
  CHECK(error_of(run).starts_with("weights in nf4, fp4 or int8 cannot be trained themselves"));
}

TEST_CASE("weights in a narrow format take its bytes and their scales") {
  RunConfig run;
  run.mode = Mode::infer;
  run.precision = DType::bf16;
  const std::int64_t matrices = 784 * 512 + 512 * 10, biases = 512 + 10;
  // bitsandbytes' leave the head as it is. int8: a scale an output feature.
  const std::int64_t stored = 784 * 512, others = 2 * (512 * 10 + biases);
  run.weights = WeightFormat::int8;
  CHECK(plan_mlp(run).bytes.parameters == stored + others);
  CHECK(plan_mlp(run).bytes.buffers == 4 * 512);
  run.weights = WeightFormat::nf4;  // two to a byte, a scale every 64, and the 16 values
  CHECK(plan_mlp(run).bytes.parameters == stored / 2 + others);
  CHECK(plan_mlp(run).bytes.buffers == 4 * stored / 64 + 64);
  run.weights = WeightFormat::fp4_double;  // scales of a byte with their own every 256, 256 values, and a mean
  CHECK(plan_mlp(run).bytes.parameters == stored / 2 + others);
  CHECK(plan_mlp(run).bytes.buffers == stored / 64 + 4 * ((stored / 64 + 255) / 256) + 64 + 1024 + 4);
  run.weights = WeightFormat::fp8;
  CHECK(plan_mlp(run).bytes.parameters == matrices + 2 * biases);
  run.weights = WeightFormat::int4;  // two to a byte, a scale every 64
  CHECK(plan_mlp(run).bytes.parameters == matrices / 2 + 2 * biases);
  CHECK(plan_mlp(run).bytes.buffers == 4 * matrices / 64);
}

TEST_CASE("a size planned in a narrow format is modelled") {
  RunConfig run;
  run.mode = Mode::infer;
  run.weights = WeightFormat::int4;
  const Report r = plan_mlp(run);
  for (const PeakPart& part : r.peak.parts)
    if (part.category == Category::parameters) CHECK(part.confidence == Confidence::modelled);
}

}  // namespace gpuplan
