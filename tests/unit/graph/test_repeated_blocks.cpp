// A block that is called as an earlier one was is not lowered again. The canonical form of a model writes every block
// in a place of its own, so that each of them is: both must give the same graph, id for id.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "configs/embedded.h"
#include "estimator/device/gpu.h"
#include "estimator/graph/build.h"
#include "estimator/spec/canonical.h"
#include "layers/catalog.h"
#include "tests/support/test_spec.h"
#include "tests/support/zoo_models.h"

namespace gpuplan {
namespace {

auto fields(const Range& r) { return std::tuple(r.begin, r.end); }
auto fields(const Buffer& b) { return std::tuple(b.bytes, b.category, b.layer); }
auto fields(const Tensor& t) {
  return std::tuple(t.shape, t.strides, t.dtype, t.buffer, t.requires_grad, t.offset, t.contiguous, t.trained,
                    t.of_trained, t.producer, t.output_index);
}
// Numbers of what it does stand for it: the primitives cannot be compared.
auto fields(const Op& op) {
  const Cost c = cost(op.what);
  return std::tuple(op.kind, op.what.index(), c.macs, c.elementwise_flops, c.kernels, c.recompute_macs, op.layer,
                    fields(op.reads), fields(op.writes), op.extra.end - op.extra.begin,
                    op.attributes.end - op.attributes.begin);
}
auto fields(const BackwardValue& l) {
  return std::tuple(l.shape, l.dtype, l.placing, l.view, l.strides, l.alias_of, l.storage_bytes, l.start, l.dim);
}
auto fields(const GradientEdge& e) { return std::tuple(e.input, e.value); }
auto fields(const AutogradNode& n) {
  return std::tuple(n.name, n.layer, n.op, fields(n.outputs), fields(n.saved), fields(n.ops), fields(n.locals),
                    fields(n.edges));
}
auto fields(const Layer& l) {
  return std::tuple(l.name, l.type, fields(l.inputs), l.output, fields(l.ops), l.parameters, l.module);
}
auto fields(const Checkpoint& c) {
  return std::tuple(fields(c.ops), fields(c.nodes), fields(c.given), c.reentrant, fields(c.returned));
}
auto fields(const ParameterTensor& p) { return std::tuple(p.tensor, p.name, p.layer, p.trainable); }
auto fields(const BufferTensor& b) { return std::tuple(b.tensor, b.name, b.layer); }
auto fields(const std::pair<TensorId, Initial>& v) { return std::tuple(v.first, v.second.kind, v.second.value); }

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return std::ranges::equal(a, b, [](const T& x, const T& y) { return fields(x) == fields(y); });
}

// In place of an operation's arguments beside its operands: what they are.
std::vector<double> arguments(const Graph& g, const std::vector<Op>& ops) {
  std::vector<double> all;
  for (const Op& op : ops) {
    for (const std::int32_t o : g.at(op.extra)) all.push_back(o);
    for (std::int32_t i = op.attributes.begin; i < op.attributes.end; ++i)
      all.push_back(g.attributes[static_cast<std::size_t>(i)].value);
  }
  return all;
}

void check_same(const Graph& a, const Graph& b) {
  CHECK(same(a.buffers, b.buffers));
  CHECK(same(a.tensors, b.tensors));
  CHECK(a.operands == b.operands);
  CHECK(same(a.forward_ops, b.forward_ops));
  CHECK(same(a.backward_ops, b.backward_ops));
  CHECK(arguments(a, a.forward_ops) == arguments(b, b.forward_ops));
  CHECK(arguments(a, a.backward_ops) == arguments(b, b.backward_ops));
  CHECK(a.saved == b.saved);
  CHECK(same(a.locals, b.locals));
  CHECK(a.strides == b.strides);
  CHECK(same(a.edges, b.edges));
  CHECK(same(a.nodes, b.nodes));
  CHECK(same(a.layers, b.layers));
  CHECK(same(a.parameters, b.parameters));
  CHECK(same(a.named_buffers, b.named_buffers));
  CHECK(a.model_storage == b.model_storage);
  CHECK(same(a.initial_values, b.initial_values));
  CHECK(same(a.checkpoints, b.checkpoints));
  CHECK(a.autocast_casts == b.autocast_casts);
  CHECK(a.inputs == b.inputs);
  CHECK(a.output == b.output);
  CHECK(a.loss == b.loss);
  CHECK(a.replaced_buffers == b.replaced_buffers);
  CHECK(a.kept_with_output == b.kept_with_output);
}

Model written_out(const Model& model) { return testing::read_spec(canonical_yaml(model)); }

std::vector<RunConfig> runs() {
  RunConfig train, amp, infer, every;
  train.batch = amp.batch = infer.batch = every.batch = 3;
  amp.autocast = DType::bf16;
  amp.layout = MemoryFormat::channels_last;
  infer.mode = Mode::infer;
  infer.precision = DType::fp16;
  every.checkpoint = {CheckpointConfig::Kind::every, 2, ""};
  every.pytorch = 113;
  return {train, amp, infer, every};
}

std::string result_of(const Model& model, const RunConfig& run, Graph& graph) {
  try {
    graph = build_graph(model, make_catalog(), run, assumed_gpu());
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

TEST_CASE("blocks repeated and written out are the same graph") {
  for (const EmbeddedFile& file : embedded_models()) {
    const std::string name(file.name);
    CAPTURE(name);
    const Model model = zoo_model(name), other = written_out(model);
    for (const RunConfig& run : runs()) {
      Graph a, b;
      const std::string said = result_of(model, run, a);
      CHECK(said == result_of(other, run, b));
      if (said.empty()) check_same(a, b);
    }
  }
}

TEST_CASE("a tie by the whole path is the first block's in both") {
  const Model model = testing::read_spec(R"yaml(
gpuplan: 1
name: m
input: {shape: [8]}
blocks:
  B:
    layers:
      - fc: Linear(8, 8)
      - again: {op: "Linear(8, 8)", tie: a.fc}
layers:
  - before: Linear(8, 8)  # so that both blocks are given what needs a gradient
  - a: {block: B}
  - b: {block: B}
loss: mean
)yaml");
  RunConfig run;
  run.batch = 2;
  const Graph g = build_graph(model, make_catalog(), run, assumed_gpu());
  const auto again = std::ranges::find(g.layers, "b.again", &Layer::name);
  REQUIRE(again != g.layers.end());
  const BufferId shared = g.tensor(g.parameters[2].tensor).buffer;  // a.fc.weight
  const auto is_shared = [&](TensorId t) { return t >= 0 && g.tensor(t).buffer == shared; };
  const auto given = [&](const Op& op) {
    return std::ranges::any_of(g.at(op.reads), is_shared) || std::ranges::any_of(g.at(op.extra), is_shared);
  };
  bool takes = false;
  for (std::int32_t i = again->ops.begin; i < again->ops.end; ++i)
    takes = takes || given(g.forward_ops[static_cast<std::size_t>(i)]);
  CHECK(takes);
}

// Autocast casts a weight once, however many blocks are given it; the loss's entries are no modules; the division by
// micro-batches is of the layer before it.
TEST_CASE("blocks on a weight, and blocks of a loss, are as if they were written out") {
  const std::string shared = R"yaml(
gpuplan: 1
name: m
input: {shape: [64]}
blocks:
  B:
    layers:
      - m: {op: MatMul(), from: [input, input.1]}
      - ReLU()
layers:
  - start: Linear(64, 64)
  - w: Parameter([64, 64])
  - enc: {block: B, repeat: 4, from: [start, w]}
  - head: Linear(64, 10)
loss: CrossEntropyLoss()
)yaml";
  const std::string loss = R"yaml(
gpuplan: 1
name: m
input: {shape: [64]}
blocks:
  C:
    layers:
      - p: Mul(other=2)
layers:
  - s: Linear(64, 64)
  - c: {block: C}
  - d: {block: C}
loss:
  - c2: {block: C}
  - m: MSELoss()
  - c3: {block: C}
  - c4: {block: C}
)yaml";
  for (const std::string& text : {shared, loss}) {
    CAPTURE(text);
    const Model model = testing::read_spec(text), other = written_out(model);
    for (RunConfig run : runs()) {
      run.batch = 4;
      run.micro_batches = run.mode == Mode::train ? 2 : 1;
      if (run.mode == Mode::infer) run.autocast = DType::bf16, run.precision = DType::fp32;
      Graph a, b;
      REQUIRE(result_of(model, run, a) == "");
      REQUIRE(result_of(other, run, b) == "");
      check_same(a, b);
    }
  }
}

TEST_CASE("a block on inputs of other shapes, or with other arguments, is not repeated") {
  // The second call of each kind differs from the first: 8 features in and 16 out, then 16 in; then another width.
  const Model model = testing::read_spec(R"yaml(
gpuplan: 1
name: m
input: {shape: [8]}
blocks:
  B:
    params: {out: 16}
    layers:
      - fc: Linear(_, $out)
      - ReLU(inplace=True)
layers:
  - a: {block: B}
  - b: {block: B}
  - c: {block: B}
  - d: {block: B, with: {out: 4}}
loss: mean
)yaml");
  RunConfig run;
  run.batch = 2;
  const Graph g = build_graph(model, make_catalog(), run, assumed_gpu());
  std::vector<std::int64_t> weights;
  for (const Layer& l : g.layers)
    if (l.parameters > 0) weights.push_back(l.parameters);
  CHECK(weights == std::vector<std::int64_t>{8 * 16 + 16, 16 * 16 + 16, 16 * 16 + 16, 16 * 4 + 4});
  // Each call's ReLU replaced its own Linear's result.
  for (const Tensor& t : g.tensors)
    if (t.replaced_by != kNone) CHECK(g.tensor(t.replaced_by).buffer == t.buffer);
}

}  // namespace
}  // namespace gpuplan
