// What nodes of autograd's hold until the loss is gone, leaves that a forward makes, and tensors in types of their own.
// Expected are differences between two specs, derived by hand; the sequences are PyTorch's in tests/torch/quantized.sh.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "estimator/plan/plan.h"
#include "layers/catalog.h"
#include "tests/support/test_spec.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kBatch = 4;

Report plan_layers(const std::string& layers, RunConfig run = {}, const std::string& blocks = "") {
  run.batch = kBatch;
  run.loop = Loop::function;
  const std::string text =
      "gpuplan: 1\ninput: {shape: [8]}\n" + blocks + "layers:\n" + layers + "  - head: Linear(8, 8)\n";
  return plan(testing::read_spec(text), make_catalog(), run);
}

std::int64_t live(const Report& r, Phase phase) {
  const auto row = std::ranges::find_if(r.phases, [&](const PhaseRow& p) { return p.steady && p.phase == phase; });
  return row->live.requested_bytes;
}

std::int64_t after_backward(const std::string& layers) { return live(plan_layers(layers), Phase::backward); }

std::string recorded(const std::string& kept) {
  return "  - up: Linear(8, 8)\n  - Aten(f, forward=\"y0=float[b,8] " + kept + "\", backward=\"d0\")\n";
}

}  // namespace

TEST_CASE("what an autograd.Function has in an attribute goes with the graph, what it saved with its backward") {
  const std::int64_t saved = after_backward(recorded("s512 x0"));
  CHECK_EQ(after_backward(recorded("hs512 x0")) - saved, 512);
  CHECK_EQ(after_backward(recorded("s512 hx0")) - saved, kBatch * 8 * 4);
  CHECK_EQ(live(plan_layers(recorded("hs512 hx0")), Phase::optimizer),
           live(plan_layers(recorded("s512 x0")), Phase::optimizer));
}

// Measured of bitsandbytes' int8 within checkpoints: tests/recorded/fine_tuning.
TEST_CASE("a checkpoint's first forward has nodes with their attributes, but for use_reentrant=True") {
  const auto after = [](const std::string& kept) {
    const std::string part =
        "blocks:\n  Part: {layers: [\"Aten(f, forward='y0=float[b,8] " + kept + "', backward='d0')\"]}\n";
    const Report planned = plan_layers("  - up: Linear(8, 8)\n  - part: {block: Part, checkpoint: true}\n", {}, part);
    return live(planned, Phase::backward);
  };
  CHECK_EQ(after("hs512 hx0") - after("s512 x0"), 512 + kBatch * 8 * 4);
}

TEST_CASE("what the function of a reentrant checkpoint has lives until the loss is gone") {
  const auto given = [](const std::string& held) {
    return "  - up: Linear(8, 8)\n  - {name: other, op: \"ReLU()\", from: input}\n" + held +
           "  - {name: sum, op: \"Add()\", from: [up, other]}\n";
  };
  const std::string held = "  - {op: HeldByGraph(), from: [up, other]}\n";
  CHECK_EQ(after_backward(given(held)) - after_backward(given("")), kBatch * 8 * 4);
}

TEST_CASE("a tensor that is made to require a gradient has one until the graph goes") {
  const auto frozen = [](const std::string& then) {
    return "  - {name: up, op: \"Linear(8, 8)\", frozen: true}\n" + then;
  };
  const std::string leaf = "  - RequiresGrad()\n";
  // The leaf, and its gradient.
  CHECK_EQ(after_backward(frozen(leaf)) - after_backward(frozen("")), 2 * kBatch * 8 * 4);
  RunConfig infer;
  infer.mode = Mode::infer;
  CHECK_EQ(live(plan_layers(frozen(leaf), infer), Phase::forward),
           live(plan_layers(frozen(""), infer), Phase::forward));
}

TEST_CASE("a parameter of integers is not trained, and a fixed buffer keeps its type") {
  const std::string layers =
      "  - {name: packed, op: \"Parameter(16, 1, dtype=uint8)\"}\n"
      "  - {name: scales, op: \"Buffer(shape=[10], dtype=float32, fixed=True)\"}\n"
      "  - {name: table, op: \"Buffer(shape=[10], dtype=float32)\"}\n"
      "  - {op: Identity(), from: input}\n";
  RunConfig half;
  half.precision = DType::bf16;
  const std::int64_t start = live(plan_layers("", half), Phase::start);
  CHECK_EQ(live(plan_layers(layers, half), Phase::start) - start, 16 + 40 + 20);
  CHECK_EQ(plan_layers(layers).model.trainable_parameters, 8 * 8 + 8);
}

}  // namespace gpuplan
