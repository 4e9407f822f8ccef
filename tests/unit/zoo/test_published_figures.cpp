// Figures that others derived or drew, from specs that say the same.
#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "estimator/plan/plan.h"
#include "estimator/spec/read.h"
#include "layers/catalog.h"

using namespace gpuplan;

namespace {

Report plan_text(const std::string& yaml, const RunConfig& run, const std::vector<Variable>& set = {}) {
  auto source = std::make_shared<Source>();
  source->name = "test.yaml";
  source->text = yaml;
  SpecOptions options;
  options.set = set;
  return plan(read_model(source, options), make_catalog(), run);
}

// V. Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models" (arXiv:2205.05198), figure 2
// and section 4.1: a transformer layer in its order, with dropout after softmax and after both projections. Their
// scaling of the scores, which stores nothing, is left out as it is there.
constexpr const char* kTransformer = R"yaml(
gpuplan: 1
name: transformer
vars: {layers: 2, s: 2048, h: 6144, a: 64}
input: {shape: [$s, $h], requires_grad: true}
blocks:
  SelfAttention:
    layers:
      - query: Linear(_, $h)
      - query_heads: View(-1, $s, $a, ${h//a})
      - q: Transpose(1, 2)
      - {name: key, op: "Linear(_, $h)", from: input}
      - key_heads: View(-1, $s, $a, ${h//a})
      - k: Permute(0, 2, 3, 1)
      - {name: value, op: "Linear(_, $h)", from: input}
      - value_heads: View(-1, $s, $a, ${h//a})
      - v: Transpose(1, 2)
      - {name: scores, op: MatMul(), from: [q, k]}
      - softmax: Softmax(-1)
      - softmax_dropout: Dropout(0.1)
      - {name: over_values, op: MatMul(), from: [softmax_dropout, v]}
      - Transpose(1, 2)
      - Reshape(-1, $s, $h)
      - projection: Linear(_, $h)
      - dropout: Dropout(0.1)
  Mlp:
    layers:
      - up: Linear(_, ${4*h})
      - gelu: GELU()
      - down: Linear(_, $h)
      - dropout: Dropout(0.1)
  Layer:
    layers:
      - residual:
          body:
            - norm1: LayerNorm($h)
            - attention: {block: SelfAttention}
      - residual:
          body:
            - norm2: LayerNorm($h)
            - mlp: {block: Mlp}
layers:
  - layer: {block: Layer, repeat: $layers}
loss: mean
)yaml";

std::int64_t saved_below(const Report& report, const std::string& prefix) {
  std::int64_t bytes = 0;
  for (const LayerRow& row : report.layers)
    if (row.name.starts_with(prefix)) bytes += row.saved_bytes;
  return bytes;
}

}  // namespace

TEST_CASE("a transformer layer keeps s b h (34 + 5 a s / h) bytes in half precision") {
  struct Sizes {
    std::int64_t s, b, h, a;
  };
  // The 22-billion-parameter model of the paper's table 3, and sizes that no kernel's rounding divides.
  for (const Sizes& layer : {Sizes{2048, 4, 6144, 64}, Sizes{96, 3, 320, 5}}) {
    const std::int64_t s = layer.s, b = layer.b, h = layer.h, a = layer.a;
    CAPTURE(s);
    RunConfig run;
    run.precision = DType::fp16;
    run.batch = b;
    const std::vector<Variable> sizes = {{"s", s}, {"h", h}, {"a", a}};
    const auto with_layers = [&](std::int64_t n) {
      std::vector<Variable> set = sizes;
      set.push_back({"layers", n});
      return plan_text(kTransformer, run, set);
    };
    const Report two = with_layers(2), three = with_layers(3);
    const std::int64_t sbh = s * b * h, a_ssb = a * s * s * b;
    // The paper leaves out mean and deviation of layer norm, 2 s b values each, here of 4 bytes.
    const std::int64_t statistics = 2 * (2 * s * b * 4);
    CHECK_EQ(three.bytes.saved_for_backward - two.bytes.saved_for_backward, 34 * sbh + 5 * a_ssb + statistics);

    // Its terms. Attention, 11 s b h + 5 a s s b: the shared input of three products (2), Q and K (4), V (2), the
    // projection's input (2), its dropout's mask (1); softmax's result (2), its dropout's mask (1) and result (2).
    CHECK_EQ(saved_below(two, "layer.1.attention."), 11 * sbh + 5 * a_ssb);
    // Two-layer perceptron, 19 s b h: inputs of both products (2 and 8), of GELU (8), the dropout's mask (1).
    CHECK_EQ(saved_below(two, "layer.1.mlp."), 19 * sbh);
    // Two layer norms, 4 s b h: their inputs.
    CHECK_EQ(saved_below(two, "layer.1.norm"), 4 * sbh + statistics);
  }
}

TEST_CASE("the textbook's toy: x of 3 GiB, y = 5 * x, mean(y).backward()") {
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  // 3 GiB are 805,306,368 numbers of 4 bytes. mean's result and its gradient take 512 B each.
  const std::string toy =
      "gpuplan: 1\nname: toy\ninput: {shape: [805306368], requires_grad: true}\nlayers:\n  - y: Scale(5)\nloss: "
      "mean\n";
  RunConfig run;
  run.optimizer.kind = OptimizerKind::none;
  run.loop = Loop::function;
  const auto in_gib = [&](std::int64_t bytes) { return static_cast<double>(bytes / 4096 * 4096) / kGiB; };

  Report r = plan_text(toy, run);
  CHECK_EQ(in_gib(r.tensor_peak.start_bytes), 3);         // x
  CHECK_EQ(in_gib(r.tensor_peak.forward_end_bytes), 6);   // x, y
  CHECK_EQ(in_gib(r.tensor_peak.backward_end_bytes), 9);  // x, y, x.grad
  CHECK_EQ(in_gib(r.tensor_peak.bytes), 12);              // and the gradient of y, of which 5 times becomes x.grad

  // mean(5 * x).backward(): no name holds y, and multiplication by a number saves nothing.
  run.loop = Loop::loss_only;
  r = plan_text(toy, run);
  CHECK_EQ(in_gib(r.tensor_peak.start_bytes), 3);
  CHECK_EQ(in_gib(r.tensor_peak.backward_end_bytes), 6);
  CHECK_EQ(in_gib(r.tensor_peak.bytes), 9);
}
