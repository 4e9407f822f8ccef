// What every layer of the catalog must satisfy, present and future. Expected values are the layer's own worked example,
// which its derivation explains.
#include <doctest/doctest.h>

#include <set>

#include "tests/support/lower_calls.h"

namespace gpuplan {
namespace {

struct Totals {
  std::int64_t parameters = 0;  // elements
  std::int64_t forward_macs = 0, backward_macs = 0;
  std::int64_t saved_bytes = 0;     // lower_calls.h
  std::int64_t floating_bytes = 0;  // of all tensors the layer makes, weights included
};

RunConfig training() { return {}; }

std::vector<Shape> shapes_of(const LayerExample& example, std::int64_t batch_factor = 1) {
  std::vector<Shape> shapes;
  for (const auto& sizes : example.input_shapes) {
    Shape shape(sizes);
    if (shape.rank() > 0) shape.set(0, shape[0] * batch_factor);
    shapes.push_back(shape);
  }
  return shapes;
}

Lowered lower_example(const LayerDef& def, const RunConfig& run, std::int64_t batch_factor = 1) {
  const LayerExample& example = def.example;
  const DType dtype = is_floating(example.input_dtype) ? run.precision : example.input_dtype;
  return lower_calls({std::string(example.call)}, shapes_of(example, batch_factor), dtype, run, assumed_gpu());
}

Totals totals(const Lowered& lowered) {
  const Graph& g = lowered.graph;
  Totals t;
  for (const Layer& layer : g.layers) t.parameters += layer.parameters;
  for (const Op& op : g.forward_ops) t.forward_macs += cost(op.what).macs;
  for (const Op& op : g.backward_ops) t.backward_macs += cost(op.what).macs;
  t.saved_bytes = saved_bytes(g);
  std::set<BufferId> stored;
  for (const Tensor& tensor : g.tensors)
    if (is_floating(tensor.dtype) && stored.insert(tensor.buffer).second)
      t.floating_bytes += g.buffers[static_cast<std::size_t>(tensor.buffer)].bytes;
  return t;
}

const Tensor& output_of(const Lowered& lowered) {
  return lowered.graph.tensors[static_cast<std::size_t>(lowered.outputs.front())];
}

template <class Check>
void for_every_layer(Check check) {
  for (const LayerDef* def : make_catalog()) {
    CAPTURE(def->name);
    check(*def);
  }
}

TEST_CASE("the worked example of every layer holds") {
  for_every_layer([](const LayerDef& def) {
    const LayerExample& example = def.example;
    const Lowered lowered = lower_example(def, training());
    const Totals t = totals(lowered);
    CHECK(to_string(output_of(lowered).shape) == to_string(Shape(example.output_shape)));
    CHECK(t.parameters == example.parameters);
    CHECK(t.forward_macs == example.forward_macs);
    CHECK(t.backward_macs == example.backward_macs);
    CHECK(t.saved_bytes == example.saved_bytes);
    CHECK(!example.derivation.empty());
  });
}

TEST_CASE("every trainable weight gets a gradient, unless it is the output itself") {
  for_every_layer([](const LayerDef& def) {
    const Lowered lowered = lower_example(def, training());
    std::set<TensorId> reached(lowered.outputs.begin(), lowered.outputs.end());
    for (const GradientEdge& edge : lowered.graph.edges) reached.insert(edge.input);
    for (const ParameterTensor& p : lowered.graph.parameters) {
      CAPTURE(p.name);
      CHECK(reached.contains(p.tensor));
    }
  });
}

TEST_CASE("the output carries a gradient when an input or a weight does") {
  for_every_layer([](const LayerDef& def) {
    const Lowered lowered = lower_example(def, training());
    const bool wanted = is_floating(def.example.input_dtype) && !def.example.input_shapes.empty();
    if (wanted || !lowered.graph.parameters.empty()) CHECK(output_of(lowered).requires_grad);
  });
}

// One of its inputs is one.
bool takes_weight(std::string_view layer) { return layer == "DoraAdapter" || layer == "LigerCausalLMLoss"; }

// The first dimension of Megatron-core's tensors is the tokens': scores are of their square, a table has a row each,
// and that of labels is the second one. Of samples there are one more beginnings.
bool counts_tokens(std::string_view layer) {
  static const std::set<std::string_view> kTheirs = {"MegatronAttention",    "MegatronRotaryTable",
                                                     "MegatronCrossEntropy", "TEDotProductAttention",
                                                     "TERingAttention",      "TESequenceLengths"};
  return kTheirs.contains(layer);
}

TEST_CASE("doubling the batch doubles products and results and leaves weights alone") {
  for_every_layer([](const LayerDef& def) {
    if (def.example.input_shapes.empty() || takes_weight(def.name) || counts_tokens(def.name)) return;
    const Lowered once = lower_example(def, training());
    const Lowered twice = lower_example(def, training(), 2);
    CHECK(totals(twice).forward_macs == 2 * totals(once).forward_macs);
    CHECK(totals(twice).backward_macs == 2 * totals(once).backward_macs);
    CHECK(totals(twice).parameters == totals(once).parameters);
    const std::int64_t elements = output_of(once).shape.elements();
    const bool of_all = def.loss || def.name == "Histc";  // whose bins are as many as before
    CHECK(output_of(twice).shape.elements() == (of_all ? elements : 2 * elements));
    // Weights, their statistics and scalars stay, all else doubles; cuDNN's reserve begins with 256 bytes.
    const std::int64_t header = std::set<std::string_view>{"GRU", "LSTM", "RNN"}.contains(def.name) ? 256 : 0;
    REQUIRE(twice.graph.buffers.size() == once.graph.buffers.size());
    for (std::size_t i = 0; i < once.graph.buffers.size(); ++i) {
      const std::int64_t before = once.graph.buffers[i].bytes;
      const std::int64_t after = twice.graph.buffers[i].bytes;
      CHECK((after == before || after == 2 * before || after == 2 * before - header));
    }
  });
}

// Normalisation and attention keep numbers in fp32, one a channel or row; these others compute in fp32 by themselves.
bool keeps_fp32(std::string_view layer) {
  static const std::set<std::string_view> kByThemselves = {
      "CausalLMLoss",     "DoraAdapter",    "LlamaRotaryEmbedding", "LigerCausalLMLoss", "LoraAdapter",
      "MixtureOfExperts", "OPTPositionIds", "T5PositionBias",       "Timesteps",         "MegatronCrossEntropy",
      "MegatronLoss",     "MegatronRotary", "MegatronRotaryTable",  "TERotary"};
  const auto has = [&](std::string_view word) { return layer.find(word) != std::string_view::npos; };
  return has("Norm") || has("Attention") || kByThemselves.contains(layer);
}

TEST_CASE("bf16 halves what fp32 takes in floating tensors") {
  for_every_layer([](const LayerDef& def) {
    // In bf16 its attention is another kernel, whose result needs no copy.
    if (def.name == "TransformerEncoderLayer") return;
    RunConfig half = training();
    half.precision = DType::bf16;
    const std::int64_t fp32_bytes = totals(lower_example(def, training())).floating_bytes;
    const std::int64_t bf16_bytes = totals(lower_example(def, half)).floating_bytes;
    CHECK(2 * bf16_bytes >= fp32_bytes);
    if (!keeps_fp32(def.name)) CHECK(2 * bf16_bytes == fp32_bytes);
  });
}

TEST_CASE("nothing is saved and no node is made in inference") {
  for_every_layer([](const LayerDef& def) {
    if (def.name == "LigerCausalLMLoss") return;  // after a LigerHead, which hands it logits
    RunConfig run = training();
    run.mode = Mode::infer;
    const Lowered lowered = lower_example(def, run);
    CHECK(lowered.graph.nodes.empty());
    CHECK(lowered.graph.saved.empty());
    if (def.name == "LigerHead") return;  // a loss that is another layer's takes its place in training
    CHECK(output_of(lowered).shape == output_of(lower_example(def, training())).shape);
  });
}

TEST_CASE("every layer and every parameter is documented") {
  for_every_layer([](const LayerDef& def) {
    CHECK(!def.summary.empty());
    CHECK(!def.math.empty());
    for (const ParameterDef& p : def.parameters) {
      CAPTURE(p.name);
      CHECK(!p.doc.empty());
    }
  });
}

TEST_CASE("an unknown parameter is refused, with the nearest name") {
  for_every_layer([](const LayerDef& def) {
    if (def.parameters.empty()) return;
    const std::string nearest(def.parameters.back().name);
    const std::string call(def.example.call);
    const std::string separator = call.ends_with("()") ? "" : ", ";
    const std::string wrong = call.substr(0, call.size() - 1) + separator + nearest + "x=1)";
    try {
      lower_calls({wrong}, shapes_of(def.example), def.example.input_dtype, training(), assumed_gpu());
      FAIL("accepted ", wrong);
    } catch (const Error& e) {
      CHECK(e.message().find("has no parameter \"" + nearest + "x\"") != std::string::npos);
      CHECK(e.message().find("\"" + nearest + "\"?") != std::string::npos);
    }
  });
}

}  // namespace
}  // namespace gpuplan
