// Operators that onnxruntime's optimizer writes: a file with them is the model of ONNX's own operators that each is
// defined by (https://github.com/microsoft/onnxruntime, its page of contrib operators). Comparisons and extremes of
// tensors, and one-hot rows, as torch.onnx writes them.
#include <doctest/doctest.h>

#include <string>

#include "onnx_schema/onnx.pb.h"
#include "tests/support/onnx_files.h"

using namespace gpuplan;
using namespace gpuplan::onnx_files;

namespace {

onnx::NodeProto& fused(onnx::ModelProto& model, const std::string& op, const std::vector<std::string>& inputs,
                       const std::string& output) {
  onnx::NodeProto& node = add_node(model, op, inputs, output);
  node.set_domain("com.microsoft");
  return node;
}

onnx::AttributeProto& attribute(onnx::NodeProto& node, const std::string& name) {
  onnx::AttributeProto& added = *node.add_attribute();
  added.set_name(name);
  return added;
}

// x [batch, 16, 8] instead of [batch, 8].
onnx::ModelProto of_tokens() {
  onnx::ModelProto model = small_model();
  auto& shape = *model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape.mutable_dim(1)->set_dim_value(16);
  shape.add_dim()->set_dim_value(8);
  return model;
}

void check_alike(const onnx::ModelProto& one, const onnx::ModelProto& other) {
  const Report a = plan_bytes(one.SerializeAsString(), 2), b = plan_bytes(other.SerializeAsString(), 2);
  CHECK_EQ(a.model.parameters, b.model.parameters);
  CHECK_EQ(a.compute.forward_macs, b.compute.forward_macs);
  CHECK_EQ(a.peak.reading.requested_bytes, b.peak.reading.requested_bytes);
  CHECK_EQ(a.peak.reading.reserved_bytes, b.peak.reading.reserved_bytes);
}

std::string refusal(const onnx::ModelProto& model) { return problem(model.SerializeAsString()); }

}  // namespace

TEST_CASE("a fused convolution is the convolution, the sum and the activation") {
  const auto image = [] {
    onnx::ModelProto model = small_model();
    auto& shape = *model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
    shape.mutable_dim(1)->set_dim_value(3);
    for (int i = 0; i < 2; ++i) shape.add_dim()->set_dim_value(8);
    add_initializer(model, "conv.weight", {3, 3, 1, 1});
    add_initializer(model, "conv.bias", {3});
    return model;
  };
  onnx::ModelProto one = image(), other = image();
  attribute(fused(one, "FusedConv", {"x", "conv.weight", "conv.bias", "x"}, "y"), "activation").set_s("Relu");
  add_node(other, "Conv", {"x", "conv.weight", "conv.bias"}, "a");
  add_node(other, "Add", {"a", "x"}, "b");
  add_node(other, "Relu", {"b"}, "y");
  check_alike(one, other);
  CHECK_EQ(spec_of(one.SerializeAsString()).find("Conv2d(3, 3, 1)") == std::string::npos, false);
  onnx::ModelProto wrong = image();
  attribute(fused(wrong, "FusedConv", {"x", "conv.weight"}, "y"), "activation").set_s("Gelu");
  CHECK(contains(refusal(wrong), "the activation \"Gelu\" is not known"));
}

TEST_CASE("fused activations are those of torch") {
  struct Case {
    const char *op, *layer;
  };
  for (const Case& c : {Case{"Gelu", "GELU()"}, Case{"BiasGelu", "GELU()"},
                        Case{"FastGelu", "GELU(approximate='tanh')"}, Case{"QuickGelu", "Sigmoid()"}}) {
    CAPTURE(std::string(c.op));
    const bool biased = std::string(c.op) == "BiasGelu";
    onnx::ModelProto model = of_tokens();
    if (biased) add_initializer(model, "bias", {8});
    fused(model, c.op, biased ? std::vector<std::string>{"x", "bias"} : std::vector<std::string>{"x"}, "y");
    CHECK(contains(spec_of(model.SerializeAsString()), c.layer));
    CHECK_EQ(plan_bytes(model.SerializeAsString(), 2).model.parameters, biased ? 8 : 0);
  }
}

TEST_CASE("a norm of a sum is the sum and the norm, of which both are results") {
  const auto model = [] {
    onnx::ModelProto m = of_tokens();
    for (const char* name : {"norm.weight", "norm.bias", "bias"}) add_initializer(m, name, {8});
    add_node(m, "Relu", {"x"}, "r");
    return m;
  };
  onnx::ModelProto one = model(), other = model();
  onnx::NodeProto& norm = fused(one, "SkipLayerNormalization", {"x", "r", "norm.weight", "norm.bias", "bias"}, "n");
  for (const char* name : {"", "", "sum"}) norm.add_output(name);
  add_node(one, "Mul", {"n", "sum"}, "y");
  add_node(other, "Add", {"x", "bias"}, "b");
  add_node(other, "Add", {"b", "r"}, "sum");
  attribute(add_node(other, "LayerNormalization", {"sum", "norm.weight", "norm.bias"}, "n"), "axis").set_i(-1);
  add_node(other, "Mul", {"n", "sum"}, "y");
  check_alike(one, other);
}

TEST_CASE("fused embeddings are look-ups, their sum and its norm") {
  const auto model = [] {
    onnx::ModelProto m = small_model();  // 8 tokens
    m.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(7);
    add_initializer(m, "words.weight", {100, 16});
    add_initializer(m, "positions.weight", {32, 16});
    for (const char* name : {"norm.weight", "norm.bias"}) add_initializer(m, name, {16});
    return m;
  };
  onnx::ModelProto one = model(), other = model();
  fused(one, "EmbedLayerNormalization", {"x", "", "words.weight", "positions.weight", "", "norm.weight", "norm.bias"},
        "y");
  add_integers(other, "zero", {0});
  add_integers(other, "tokens", {8});
  add_node(other, "Gather", {"words.weight", "x"}, "words");
  add_node(other, "Slice", {"positions.weight", "zero", "tokens", "zero"}, "rows");
  add_node(other, "Add", {"words", "rows"}, "sum");
  attribute(add_node(other, "LayerNormalization", {"sum", "norm.weight", "norm.bias"}, "y"), "axis").set_i(-1);
  check_alike(one, other);
  CHECK_EQ(plan_bytes(one.SerializeAsString(), 2).model.parameters, 132 * 16 + 2 * 16);
  one.mutable_graph()->mutable_node(0)->set_input(1, "x");
  CHECK(contains(refusal(one), "types of tokens come with their table"));
}

TEST_CASE("simplified norms are root-mean-square norms") {
  onnx::ModelProto model = of_tokens();
  add_initializer(model, "norm.weight", {8});
  add_node(model, "SimplifiedLayerNormalization", {"x", "norm.weight"}, "a");
  fused(model, "SkipSimplifiedLayerNormalization", {"x", "a", "norm.weight"}, "y");
  const std::string spec = spec_of(model.SerializeAsString());
  CHECK(contains(spec, "norm: LlamaRMSNorm(8, eps="));
  CHECK_EQ(plan_bytes(model.SerializeAsString(), 2).model.parameters, 8);
}

TEST_CASE("fused operators without what they need are refused") {
  struct Case {
    const char *op, *message;
    std::vector<std::string> inputs;
  };
  const Case cases[] = {
      {"Attention", "input 1 is missing", {"x"}},
      {"SkipLayerNormalization", "input 2 is missing", {"x", "x"}},
      {"SimplifiedLayerNormalization", "input 1 is missing", {"x"}},
      {"SimplifiedLayerNormalization", "its scale [N, 16, 8] is not of the last dimension", {"x", "x"}},
      {"FusedConv", "input 1 is missing", {"x"}},
      {"BiasGelu", "the graph is cyclic", {"x", "y"}}};
  for (const Case& c : cases) {
    CAPTURE(std::string(c.op));
    onnx::ModelProto model = of_tokens();
    fused(model, c.op, c.inputs, "y");
    CHECK(contains(refusal(model), c.message));
  }
  onnx::ModelProto bare = of_tokens();  // the name that it has within the importer
  add_node(bare, "RootMeanSquareNorm", {"x"}, "y");
  CHECK(contains(refusal(bare), "input 1 is missing"));
}

TEST_CASE("fused attention is its projections and PyTorch's kernel") {
  onnx::ModelProto model = of_tokens();
  add_initializer(model, "qkv.weight", {8, 24});
  add_initializer(model, "qkv.bias", {24});
  onnx::NodeProto& node = fused(model, "Attention", {"x", "qkv.weight", "qkv.bias"}, "y");
  attribute(node, "num_heads").set_i(2);
  attribute(node, "unidirectional").set_i(1);
  CHECK(contains(spec_of(model.SerializeAsString()), "ScaledDotProductAttention(is_causal=True)"));
  const Report report = plan_bytes(model.SerializeAsString(), 2);
  CHECK_EQ(report.model.parameters, 8 * 24 + 24);
  // 2 samples of 16 tokens: the projections, the scores and the sum of the values.
  CHECK_EQ(report.compute.forward_macs, 2 * 16 * 8 * 24 + 2 * (2 * 16 * 16 * 8));
  node.add_input("mask");
  auto& mask = *model.mutable_graph()->add_input();
  mask.set_name("mask");
  mask.mutable_type()->mutable_tensor_type()->set_elem_type(6);
  auto& sizes = *mask.mutable_type()->mutable_tensor_type()->mutable_shape();
  sizes.add_dim()->set_dim_param("batch");
  sizes.add_dim()->set_dim_value(16);
  CHECK(contains(refusal(model), "another mask together with the causal one is not modelled"));
  node.mutable_attribute(1)->set_i(0);
  const std::string masked = spec_of(model.SerializeAsString());
  CHECK(contains(masked, "To(bool)"));
  CHECK(contains(masked, "ScaledDotProductAttention()"));
  // Boolean masks are made numbers for the kernel, in each sample of 16 tokens.
  CHECK_EQ(plan_bytes(model.SerializeAsString(), 2).compute.forward_macs, report.compute.forward_macs);
  sizes.mutable_dim()->RemoveLast();
  CHECK(contains(refusal(model), "is not of every token"));
  node.mutable_attribute(0)->set_i(3);
  CHECK(contains(refusal(model), "its width of 8 cannot be divided into 3 heads"));
  attribute(node, "do_rotary").set_i(1);
  CHECK(contains(refusal(model), "positions that it rotates itself are not modelled"));
  onnx::ModelProto several = of_tokens();
  fused(several, "MultiHeadAttention", {"x", "x", "x"}, "y");
  CHECK(contains(refusal(several), "its number of heads is 0"));
  attribute(*several.mutable_graph()->mutable_node(0), "num_heads").set_i(2);
  CHECK_EQ(plan_bytes(several.SerializeAsString(), 2).compute.forward_macs, 2 * (2 * 16 * 16 * 8));
}

TEST_CASE("two tensors are compared, and the larger of them is taken") {
  onnx::ModelProto model = small_model();
  add_node(model, "Sigmoid", {"x"}, "s");
  add_node(model, "Less", {"x", "s"}, "less");
  add_node(model, "Equal", {"x", "s"}, "equal");
  add_node(model, "Or", {"less", "equal"}, "mask");
  add_node(model, "Max", {"x", "s"}, "larger");
  add_node(model, "Mean", {"x", "s"}, "middle");
  add_node(model, "Where", {"mask", "larger", "middle"}, "y");
  const std::string spec = spec_of(model.SerializeAsString());
  for (const char* call : {"Lt()", "Eq()", "LogicalOr()", "Maximum()", "Div(other=2)", "Where()"})
    CHECK(contains(spec, call));
  // Masks have a byte an element: x, s, the two masks and their union, the larger ones.
  CHECK_GT(plan_bytes(model.SerializeAsString(), 2).peak.reading.requested_bytes, 0);
}

TEST_CASE("one-hot rows are zeros with a one") {
  onnx::ModelProto model = small_model();
  model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(7);
  add_integers(model, "values", {0, 1});
  add_integers(model, "depth", {10});
  add_node(model, "OneHot", {"x", "depth", "values"}, "y");
  CHECK(contains(spec_of(model.SerializeAsString()), "OneHot(10)"));
  // The classes, and rows of 10 integers of 8 bytes for each: the last result lives until there is a new one.
  CHECK_EQ(plan_bytes(model.SerializeAsString(), 2).peak.reading.requested_bytes, 2 * 8 * 8 + 2 * (2 * 8 * 10 * 8));
  attribute(*model.mutable_graph()->mutable_node(0), "axis").set_i(0);
  CHECK(contains(refusal(model), "its classes are not the last dimension"));
}

TEST_CASE("one-hot rows of known classes are known, as the repeats of repeat_interleave are written") {
  // 4 values, the second of which, -3, is 3: [batch, 1, 1, 8] repeated as [batch, 3, 1, 8].
  onnx::ModelProto model = small_model();
  add_integers(model, "values", {1, 3});
  add_integers(model, "depth", {4});
  add_integers(model, "one", {-3});
  add_integers(model, "sizes", {0, 1, 1, 8});
  add_integers(model, "flat", {4});
  add_node(model, "Reshape", {"x", "sizes"}, "a");
  add_node(model, "OneHot", {"one", "depth", "values"}, "rows");
  add_node(model, "Reshape", {"rows", "flat"}, "repeats");
  add_node(model, "Tile", {"a", "repeats"}, "y");
  CHECK(contains(spec_of(model.SerializeAsString()), "Repeat(1, 3, 1, 1)"));
}
