#include <doctest/doctest.h>

#include <string>

#include "onnx_schema/onnx.pb.h"
#include "tests/support/onnx_files.h"

using namespace gpuplan;
using namespace gpuplan::onnx_files;

namespace {

std::string sized(const std::string& text) {
  REQUIRE_LT(text.size(), 128 * 128);
  std::string length(1, static_cast<char>(text.size() % 128));
  if (text.size() > 127)
    length = std::string(1, static_cast<char>(text.size() % 128 | 128)) + static_cast<char>(text.size() / 128);
  return length + text;
}

// An entry of metadata_props, a field that schemas before ONNX 1.16 do not have: field 9 of a node, 4 of a value.
void add_note(std::string& fields, char field, const std::string& key, const std::string& text) {
  fields += std::string(1, static_cast<char>(field << 3 | 2)) + sized("\x0A" + sized(key) + "\x12" + sized(text));
}

void add_call(onnx::NodeProto& node, const std::string& scopes, const std::string& call) {
  add_note(*node.mutable_unknown_fields(), 9, "pkg.torch.onnx.name_scopes", scopes);
  add_note(*node.mutable_unknown_fields(), 9, "pkg.torch.onnx.fx_node", call);
}

void add_kind(onnx::ModelProto& model, const std::string& name, const std::string& kind, const std::string& original) {
  onnx::ValueInfoProto& value = *model.mutable_graph()->add_value_info();
  value.set_name(name);
  add_note(*value.mutable_unknown_fields(), 4, "pkg.torch.export.graph_signature.InputSpec.kind", kind);
  add_note(*value.mutable_unknown_fields(), 4, "pkg.torch.onnx.original_node_name", original);
}

onnx::AttributeProto& add_attribute(onnx::NodeProto& node, const std::string& name) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  return attribute;
}

void add_real(onnx::ModelProto& model, const std::string& name, float number) {
  add_initializer(model, name, {}).add_float_data(number);
}

// x [batch, 8] and a weight [16, 8] by this equation.
std::string einsum(const std::string& equation) {
  onnx::ModelProto model = small_model();
  add_initializer(model, "fc.weight", {16, 8});
  add_attribute(add_node(model, "Einsum", {"x", "fc.weight"}, "y"), "equation").set_s(equation);
  return model.SerializeAsString();
}

// Two products with one weight of PyTorch's, [16, 8], the second of which the exporter turned and named anew.
onnx::ModelProto tied_model() {
  onnx::ModelProto model = small_model();
  add_initializer(model, "first.weight", {16, 8});
  add_initializer(model, "val_7", {8, 16});
  onnx::NodeProto& first = add_node(model, "Gemm", {"x", "first.weight"}, "a");
  add_attribute(first, "transB").set_i(1);
  add_call(first, "['', 'first', 'linear']",
           "%linear : call_function[target=torch.ops.aten.linear.default](args = (%x, %p_first_weight), kwargs = {})");
  add_call(
      add_node(model, "MatMul", {"x", "val_7"}, "b"), "['', 'head', 'head.second', 'linear_1']",
      "%linear_1 : call_function[target=torch.ops.aten.linear.default](args = (%x, %p_first_weight), kwargs = {})");
  add_node(model, "Add", {"a", "b"}, "y");
  return model;
}

}  // namespace

TEST_CASE("what torch.onnx notes of modules names the layers, and of weights ties them") {
  onnx::ModelProto model = tied_model();
  add_kind(model, "first.weight", "PARAMETER", "p_first_weight");
  const std::string noted = spec_of(model.SerializeAsString());
  CHECK(contains(noted, "{name: head.second, op: \"Linear(8, 16, bias=False)\", from: input, tie: first}"));
  CHECK_EQ(plan_bytes(model.SerializeAsString(), 2).model.parameters, 16 * 8);
  CHECK_EQ(plan_bytes(model.SerializeAsString(), 2).compute.forward_macs, 2 * 2 * 16 * 8);
}

TEST_CASE("equal shapes alone tie nothing") {
  CHECK_EQ(plan_bytes(tied_model().SerializeAsString(), 2).model.parameters, 2 * 16 * 8);
}

TEST_CASE("a head that may be tied to an embedding is said") {
  onnx::ModelProto model = small_model();
  model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(7);
  add_initializer(model, "embed.weight", {100, 16});
  add_initializer(model, "onnx::MatMul_9", {16, 100});
  add_node(model, "Gather", {"embed.weight", "x"}, "a");
  add_node(model, "MatMul", {"a", "onnx::MatMul_9"}, "y").set_name("/head/MatMul");
  CHECK(contains(spec_of(model.SerializeAsString()), "# head has a weight of the sizes of embed's, turned."));
  CHECK_EQ(plan_bytes(model.SerializeAsString(), 2).model.parameters, 2 * 100 * 16);
}

TEST_CASE("buffers and folded tables are no parameters where the file says what is one") {
  onnx::ModelProto model = small_model();
  for (const std::string name : {"scale", "table", "cos"}) add_initializer(model, name, {8});
  add_node(model, "Mul", {"x", "scale"}, "a");
  add_node(model, "Add", {"a", "table"}, "b");
  add_node(model, "Mul", {"b", "cos"}, "y");
  CHECK_EQ(plan_bytes(model.SerializeAsString(), 2).model.parameters, 3 * 8);
  add_kind(model, "scale", "PARAMETER", "p_scale");
  add_kind(model, "table", "BUFFER", "b_table");
  CHECK_EQ(plan_bytes(model.SerializeAsString(), 2).model.parameters, 8);
}

TEST_CASE("a number is a parameter where the file says so") {
  onnx::ModelProto model = small_model();
  add_real(model, "gain", 0.5F);
  add_node(model, "Mul", {"x", "gain"}, "y");
  CHECK_EQ(plan_bytes(model.SerializeAsString(), 2).model.parameters, 0);
  add_kind(model, "gain", "PARAMETER", "p_gain");
  CHECK_EQ(plan_bytes(model.SerializeAsString(), 2).model.parameters, 1);
}

TEST_CASE("ones that the exporter made for a norm without weights are no parameters") {
  onnx::ModelProto model = small_model();
  add_initializer(model, "val_9", {8});
  onnx::NodeProto& norm = add_node(model, "LayerNormalization", {"x", "val_9"}, "y");
  CHECK_EQ(plan_bytes(model.SerializeAsString(), 2).model.parameters, 8);
  add_call(norm, "['', 'norm', 'layer_norm']",
           "%layer_norm : call_function[target=torch.ops.aten.layer_norm.default](args = (%x, [8], None, None, 1e-06, "
           "False), kwargs = {})");
  CHECK_EQ(plan_bytes(model.SerializeAsString(), 2).model.parameters, 0);
}

TEST_CASE("a product with a buffer has no parameters") {
  onnx::ModelProto model = small_model();
  add_initializer(model, "first.weight", {8, 4});
  add_initializer(model, "blur.filt", {4, 5});
  add_node(model, "MatMul", {"x", "first.weight"}, "a");
  add_node(model, "MatMul", {"a", "blur.filt"}, "y");
  add_kind(model, "first.weight", "PARAMETER", "p_first_weight");
  add_kind(model, "blur.filt", "BUFFER", "b_blur_filt");
  const Report report = plan_bytes(model.SerializeAsString(), 3);
  CHECK_EQ(report.model.parameters, 8 * 4);
  CHECK_EQ(report.compute.forward_macs, 3 * (8 * 4 + 4 * 5));
}

TEST_CASE("a convolution with a buffer, as a blur's, has no parameters") {
  onnx::ModelProto model = small_model();
  auto& shape = *model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  for (const std::int64_t n : {7, 9}) shape.add_dim()->set_dim_value(n);
  add_initializer(model, "blur.filt", {8, 1, 3, 3});
  onnx::NodeProto& blur = add_node(model, "Conv", {"x", "blur.filt"}, "y");
  add_attribute(blur, "group").set_i(8);
  const Report report = plan_bytes(model.SerializeAsString(), 3);
  CHECK_EQ(report.model.parameters, 0);
  CHECK_EQ(report.compute.forward_macs, 3 * 8 * (5 * 7) * (3 * 3));
}

TEST_CASE("a convolution with a weight that is computed reads it, as weight standardization has it") {
  onnx::ModelProto model = small_model();
  auto& shape = *model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  for (const std::int64_t n : {7, 9}) shape.add_dim()->set_dim_value(n);
  add_initializer(model, "conv.weight", {5, 8, 3, 3});
  add_initializer(model, "conv.bias", {5});
  add_node(model, "Tanh", {"conv.weight"}, "weight");
  add_node(model, "Conv", {"x", "weight", "conv.bias"}, "y");
  const Report report = plan_bytes(model.SerializeAsString(), 2);
  CHECK_EQ(report.model.parameters, 5 * 8 * 3 * 3 + 5);
  CHECK_EQ(report.compute.forward_macs, 2 * 5 * 8 * (5 * 7) * (3 * 3));
}

TEST_CASE("Einsum of two operands is one product") {
  // 3 samples of 8 numbers times 16 rows of 8.
  CHECK_EQ(plan_bytes(einsum("bi,oi->bo"), 3).compute.forward_macs, 3 * 8 * 16);
  CHECK_EQ(plan_bytes(einsum("bi,oi->ob"), 3).compute.forward_macs, 3 * 8 * 16);
  CHECK_EQ(plan_bytes(einsum("bi, oi -> bo"), 3).model.parameters, 16 * 8);
  CHECK(contains(problem(einsum("bi,oi->bi")), "a sum over \"o\" of one operand alone"));
  CHECK(contains(problem(einsum("bii,oi->bo")), "different letters in each part"));
  CHECK(contains(problem(einsum("bi,oj->bo")), "sum over \"i\" of one operand"));
  CHECK(contains(problem(einsum("bi,oij->bo")), "\"oij\" stands for [16, 8]"));
  CHECK(contains(problem(einsum("bi,oi->bz")), "no operand has the dimension \"z\""));
  CHECK(contains(problem(einsum("bi->b")), "none of two operands and a result"));
  CHECK(contains(problem(einsum("")), "none of two operands and a result"));
}

TEST_CASE("operators that PyTorch has one of are one layer") {
  onnx::ModelProto model = small_model();
  add_real(model, "one", 1);
  add_real(model, "eps", 1e-12F);
  add_integers(model, "last", {-1});
  add_initializer(model, "axis", {}, 7).add_int64_data(1);
  add_node(model, "Equal", {"x", "one"}, "equal");
  add_node(model, "Not", {"equal"}, "different");
  add_attribute(add_node(model, "Cast", {"different"}, "number"), "to").set_i(1);
  add_node(model, "CumSum", {"number", "axis"}, "sums");
  add_node(model, "Sub", {"one", "sums"}, "rest");
  add_node(model, "ReduceL2", {"rest", "last"}, "length");
  model.mutable_opset_import(0)->set_version(18);  // axes are an input
  add_node(model, "Clip", {"length", "eps"}, "clipped");
  add_node(model, "Div", {"rest", "clipped"}, "y");
  const std::string spec = spec_of(model.SerializeAsString());
  CHECK(contains(spec, ": Ne(1)\n"));
  CHECK(contains(spec, ": Cumsum(1)\n"));
  CHECK(contains(spec, ": RSub(1)\n"));
  CHECK(contains(spec, ": Normalize(dim=1)\n"));
  CHECK_FALSE(contains(spec, "Eq("));
  CHECK_EQ(plan_bytes(model.SerializeAsString(), 2).model.parameters, 0);
}

TEST_CASE("rows by a constant index, and numbers written into a copy") {
  onnx::ModelProto model = small_model();
  onnx::TensorProto& index = add_integers(model, "index", {0, 0, 0});
  index.clear_dims();
  index.add_dims(3);
  index.add_dims(1);
  add_initializer(model, "values", {3, 8});
  add_initializer(model, "table", {5, 8});
  add_node(model, "ScatterND", {"table", "index", "values"}, "written");
  add_node(model, "GatherND", {"written", "index"}, "rows");
  add_node(model, "Add", {"rows", "x"}, "y");
  const std::string bytes = model.SerializeAsString();
  const std::string text = problem(bytes);
  CHECK(contains(text, "node node_of_y (Add): shapes [3, 8] and [N, 8] do not match"));
  model.mutable_graph()->mutable_node(2)->set_op_type("MatMul");
  onnx::NodeProto& turned = add_node(model, "Transpose", {"rows"}, "turned");
  model.mutable_graph()->mutable_node(2)->set_input(0, "x");
  model.mutable_graph()->mutable_node(2)->set_input(1, turned.output(0));
  CHECK(contains(spec_of(model.SerializeAsString()), "Clone()"));
  CHECK(contains(spec_of(model.SerializeAsString()), "Index()"));
  CHECK_EQ(plan_bytes(model.SerializeAsString(), 2).compute.forward_macs, 2 * 3 * 8);
}

TEST_CASE("a graph of more parts than any model has is refused before they take memory") {
  for (const std::string part : {"\x0A", "\x2A"}) {  // nodes, initializers: two bytes each
    std::string parts;
    for (int i = 0; i < 600'000; ++i) parts += part + std::string(1, '\0');
    std::string length;
    for (std::size_t n = parts.size(); n > 0; n >>= 7) length += static_cast<char>(n > 127 ? (n & 127) | 128 : n);
    CHECK(contains(problem("\x08\x08\x42\x02\x10\x11\x3A" + length + parts),
                   "more than 524288 nodes, attributes and tensors"));
  }
}

TEST_CASE("a constant of a negative size is refused") {
  onnx::ModelProto model = small_model();
  add_integers(model, "sizes", {-3, 8});
  add_node(model, "ConstantOfShape", {"sizes"}, "c");
  add_node(model, "Add", {"x", "c"}, "y");
  CHECK(contains(problem(model.SerializeAsString()), "its result has a negative size: [-3, 8]"));
}

TEST_CASE("a norm without its scale is refused") {
  for (const char* op : {"BatchNormalization", "PRelu"}) {
    CAPTURE(std::string(op));
    onnx::ModelProto model = small_model();
    auto& shape = *model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
    for (int i = 0; i < 2; ++i) shape.add_dim()->set_dim_value(4);
    add_node(model, op, {"x", ""}, "y");
    CHECK_NE(problem(model.SerializeAsString()), "");
  }
}
