// Operators of torch.onnx as layers of the catalog: those that PyTorch exported one by one, and forms that only other
// exporters write.
#include <doctest/doctest.h>

#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "onnx_schema/onnx.pb.h"
#include "tests/support/onnx_files.h"
#include "tools/importers/onnx/import_onnx.h"

using namespace gpuplan;
using namespace gpuplan::onnx_files;

namespace {

std::string shape_text(const Shape& shape) {
  std::string text;
  for (int d = 0; d < shape.rank(); ++d) text += (d > 0 ? "x" : "") + std::to_string(shape[d]);
  return text;
}

// The shape of the entry of this output, by the output's name or its module's; empty where it has another name.
std::string shape_of(const Report& report, const std::string& name) {
  std::string found;
  for (const LayerRow& row : report.layers)
    for (const std::string& known : {name, "out_" + name, "out_" + name + "_sequences"})
      if (row.name == known) found = shape_text(row.output_shape);
  return found;
}

void set_attribute(onnx::NodeProto& node, const std::string& name, std::int64_t value) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_i(value);
}

void set_axes(onnx::NodeProto& node) {
  onnx::AttributeProto& axes = *node.add_attribute();
  axes.set_name("axes");
  axes.add_ints(0);
  axes.add_ints(2);
}

// The model of one input of these sizes behind the batch.
onnx::ModelProto model_of(const std::vector<std::int64_t>& sizes) {
  onnx::ModelProto model = small_model();
  auto& shape = *model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape.mutable_dim()->RemoveLast();
  for (const std::int64_t n : sizes) shape.add_dim()->set_dim_value(n);
  return model;
}

// x [batch, 3, 8, 8] by a convolution whose weight is standardised: F.batch_norm(weight.reshape(1, 16, 27), None, None,
// weight=gain, bias=None, training=True), as timm's StdConv2d is; zeros of this name stand for the bias.
onnx::ModelProto standardised_model(const std::string& bias) {
  onnx::ModelProto model = model_of({3, 8, 8});
  add_initializer(model, "conv.weight", {16, 3, 3, 3});
  add_initializer(model, "conv.gain", {16});
  onnx::TensorProto& zeros = add_initializer(model, bias, {16});
  for (int i = 0; i < 16; ++i) zeros.add_float_data(0);
  add_integers(model, "sizes", {1, 16, 27});
  add_integers(model, "back", {16, 3, 3, 3});
  add_node(model, "Reshape", {"conv.weight", "sizes"}, "w");
  for (const char* name : {"mean", "middle"}) {
    onnx::NodeProto& node = add_node(model, "ReduceMean", {"w"}, name);
    set_axes(node);
    set_attribute(node, "keepdims", std::string(name) == "middle" ? 1 : 0);
  }
  add_node(model, "Sub", {"w", "middle"}, "distance");
  add_node(model, "Mul", {"distance", "distance"}, "square");
  onnx::NodeProto& variance = add_node(model, "ReduceMean", {"square"}, "variance");
  set_axes(variance);
  set_attribute(variance, "keepdims", 0);
  add_node(model, "BatchNormalization", {"w", "conv.gain", bias, "mean", "variance"}, "normed");
  add_node(model, "Reshape", {"normed", "back"}, "weight");
  add_node(model, "Conv", {"x", "weight"}, "y");
  return model;
}

// `from` [4 * 6, ...], gates in PyTorch's order, as `to` [1, 4 * 6, ...] in ONNX's.
void add_reordered(onnx::ModelProto& model, const std::string& from, const std::string& to) {
  std::vector<std::string> gates;
  for (const std::int64_t gate : {0, 3, 1, 2}) {
    const std::string name = from + std::to_string(gate);
    add_integers(model, name + "_start", {gate * 6});
    add_integers(model, name + "_end", {(gate + 1) * 6});
    add_node(model, "Slice", {from, name + "_start", name + "_end", "first"}, name);
    gates.push_back(name);
  }
  set_attribute(add_node(model, "Concat", gates, to + "_row"), "axis", 0);
  add_node(model, "Unsqueeze", {to + "_row", "first"}, to);
}

std::string spec_of_one(onnx::ModelProto model) { return spec_of(model.SerializeAsString()); }

}  // namespace

TEST_CASE("operators that torch.onnx writes are the layers that PyTorch's calls are, and have PyTorch's shapes") {
  const std::string folder = std::string(GPUPLAN_SOURCE_DIR) + "/tests/onnx/";
  std::ifstream table(folder + "operators.tsv");
  REQUIRE(table);
  std::string line;
  std::getline(table, line);
  std::getline(table, line);
  std::map<std::string, std::pair<std::string, Report>> files;
  for (const std::string exporter : {"dynamo", "script"}) {
    std::vector<Variable> set;
    const std::string path = folder + "operators_" + exporter + ".onnx";
    files.emplace(exporter, std::pair(import_onnx(path, set), plan_onnx(path, 2)));
  }
  int shapes = 0;
  while (std::getline(table, line)) {
    std::istringstream row(line);
    std::string exporter, name, shape, layer;
    std::getline(row, exporter, '\t');
    std::getline(row, name, '\t');
    std::getline(row, shape, '\t');
    std::getline(row, layer);
    CAPTURE(exporter);
    CAPTURE(name);
    const auto& [spec, report] = files.at(exporter);
    CHECK((contains(spec, ": " + layer + "\n") || contains(spec, "op: \"" + layer + "\"")));
    const std::string found = shape_of(report, name);
    if (found.empty()) continue;
    CHECK_EQ(found, shape);
    ++shapes;
  }
  CHECK_GE(shapes, 45);
}

TEST_CASE("a slice backwards is a slice and a flip") {
  onnx::ModelProto model = model_of({10});
  add_integers(model, "start", {7});
  add_integers(model, "end", {1});
  add_integers(model, "axis", {1});
  add_integers(model, "step", {-2});
  add_node(model, "Slice", {"x", "start", "end", "axis", "step"}, "y");
  // x[:, 7:1:-2] of Python is positions 7, 5 and 3.
  CHECK(contains(spec_of_one(model), ": Slice(1, 3, 8, 2)\n"));
  CHECK(contains(spec_of_one(model), ": Flip(1)\n"));
  CHECK_EQ(plan_bytes(model.SerializeAsString(), 4).layers.back().output_shape, Shape{4, 3});
}

// ONNX, Slice: steps may be of any size; exporters write INT64_MAX for "to the end".
TEST_CASE("a slice in steps as large as an integer takes one position") {
  for (const std::int64_t step :
       {std::numeric_limits<std::int64_t>::max(), -std::numeric_limits<std::int64_t>::max()}) {
    CAPTURE(step);
    onnx::ModelProto model = model_of({10});
    add_integers(model, "start", {7});
    add_integers(model, "end", {step > 0 ? std::numeric_limits<std::int64_t>::max() : 1});
    add_integers(model, "axis", {1});
    add_integers(model, "step", {step});
    add_node(model, "Slice", {"x", "start", "end", "axis", "step"}, "y");
    CHECK_EQ(plan_bytes(model.SerializeAsString(), 4).layers.back().output_shape, Shape{4, 1});
  }
}

TEST_CASE("pooling over whole images and over sequences is PyTorch's, over a dimension of 1") {
  onnx::ModelProto image = model_of({6, 8, 10});
  add_node(image, "GlobalMaxPool", {"x"}, "y");
  CHECK(contains(spec_of_one(image), ": AdaptiveMaxPool2d(1)\n"));
  onnx::ModelProto sequence = model_of({6, 10});
  add_node(sequence, "GlobalAveragePool", {"x"}, "y");
  const std::string spec = spec_of_one(sequence);
  CHECK(contains(spec, ": Unsqueeze(2)\n"));
  CHECK(contains(spec, ": AdaptiveAvgPool2d(1)\n"));
  CHECK_EQ(plan_bytes(sequence.SerializeAsString(), 4).layers.back().output_shape, Shape{4, 6, 1});
}

TEST_CASE("a bound by Max or Min is a clamp") {
  onnx::ModelProto model = small_model();
  add_initializer(model, "low", {}).add_float_data(-1);
  add_initializer(model, "zero", {}).add_float_data(0);
  add_node(model, "Max", {"low", "x"}, "a");
  add_node(model, "Min", {"a", "zero"}, "b");
  add_node(model, "Max", {"b", "zero"}, "y");
  const std::string spec = spec_of_one(model);
  CHECK(contains(spec, ": Clamp(min=-1)\n"));
  CHECK(contains(spec, ": Clamp(max=0)\n"));
  CHECK(contains(spec, ": ReLU()\n"));
}

TEST_CASE("a product of computed matrices with a sum is torch.addmm's") {
  onnx::ModelProto model = small_model();
  add_initializer(model, "fc.weight", {8, 5});
  add_node(model, "MatMul", {"x", "fc.weight"}, "a");
  onnx::NodeProto& product = add_node(model, "Gemm", {"x", "a"}, "y");
  set_attribute(product, "transA", 1);
  // x^T [8, N] times a [N, 5]: 8 * 5 * N multiply-adds behind N * 8 * 5.
  CHECK_EQ(plan_bytes(model.SerializeAsString(), 3).compute.forward_macs, 2 * 3 * 8 * 5);
}

TEST_CASE("a constant that only the batch gives its size has the batch in products") {
  // As timm's edgenext makes positions for every image: ones of [N, 8] times a weight.
  onnx::ModelProto model = small_model();
  add_initializer(model, "fc.weight", {8, 5});
  add_node(model, "Shape", {"x"}, "sizes");
  add_node(model, "ConstantOfShape", {"sizes"}, "positions");
  add_node(model, "MatMul", {"positions", "fc.weight"}, "a");
  add_node(model, "MatMul", {"x", "fc.weight"}, "b");
  add_node(model, "Add", {"a", "b"}, "y");
  CHECK_EQ(plan_bytes(model.SerializeAsString(), 3).compute.forward_macs, 2 * 3 * 8 * 5);
  // Only where the operator does not spread it over what has the batch.
  onnx::ModelProto sum = small_model();
  add_node(sum, "Shape", {"x"}, "sizes");
  add_node(sum, "ConstantOfShape", {"sizes"}, "positions");
  add_node(sum, "Add", {"x", "positions"}, "y");
  CHECK_FALSE(contains(spec_of_one(sum), "Expand("));
}

TEST_CASE("batch norm by the statistics of its input is one layer, without the bias that it was not given") {
  const std::string spec = spec_of_one(standardised_model("val_7"));
  CHECK_MESSAGE(contains(spec, "BatchNorm1d(16, track_running_stats=False)"), spec);
  CHECK_FALSE(contains(spec, "Mean("));
  const auto parameters = [](const char* bias) {
    return plan_bytes(standardised_model(bias).SerializeAsString(), 2).model.parameters;
  };
  CHECK_EQ(parameters("val_7"), 16 * 3 * 3 * 3 + 16);
  CHECK_EQ(parameters("conv.bias"), 16 * 3 * 3 * 3 + 16 + 16);
}

// torch.nn.RNN has tanh or relu, its other layers what they are defined with.
TEST_CASE("the activations of a recurrent layer are torch.nn's") {
  onnx::ModelProto model = small_model();
  add_integers(model, "first", {0});
  add_node(model, "Unsqueeze", {"x", "first"}, "steps");
  onnx::NodeProto& rnn = add_node(model, "RNN", {"steps", "w", "r"}, "y");
  add_initializer(model, "w", {1, 4, 8});
  add_initializer(model, "r", {1, 4, 4});
  onnx::AttributeProto& activations = *rnn.add_attribute();
  activations.set_name("activations");
  activations.set_type(onnx::AttributeProto::STRINGS);
  activations.add_strings("Relu");
  CHECK(contains(spec_of(model.SerializeAsString()), "RNN(8, 4, nonlinearity=relu, bias=False)"));
  activations.set_strings(0, "Tanh");
  CHECK(contains(spec_of(model.SerializeAsString()), "RNN(8, 4, bias=False)"));
  activations.set_strings(0, "Elu");
  CHECK(contains(problem(model.SerializeAsString()), "its activations are not those of torch.nn's RNN"));
}

TEST_CASE("the weights of a recurrent layer whose gates the exporter put into another order are its weights") {
  onnx::ModelProto model = model_of({5, 8});
  add_integers(model, "first", {0});
  add_initializer(model, "rnn.weight_ih_l0", {4 * 6, 8});
  add_initializer(model, "rnn.weight_hh_l0", {4 * 6, 6});
  add_initializer(model, "rnn.bias", {1, 8 * 6});
  add_reordered(model, "rnn.weight_ih_l0", "w");
  add_reordered(model, "rnn.weight_hh_l0", "r");
  onnx::AttributeProto& order = *add_node(model, "Transpose", {"x"}, "steps").add_attribute();
  order.set_name("perm");
  for (const int d : {1, 0, 2}) order.add_ints(d);
  set_attribute(add_node(model, "LSTM", {"steps", "w", "r", "rnn.bias"}, "y"), "hidden_size", 6);
  const std::string spec = spec_of_one(model);
  CHECK_MESSAGE(contains(spec, "LSTM(8, 6)"), spec);
  CHECK_FALSE(contains(spec, "Slice("));
  // torch.nn.LSTM(8, 6): four gates of 6 with weights for 8 inputs and 6 states and two biases.
  CHECK_EQ(plan_bytes(model.SerializeAsString(), 2).model.parameters, 4 * 6 * (8 + 6 + 2));
}

TEST_CASE("a group norm has the weights that torch.onnx wrote once for several that were equal") {
  onnx::ModelProto model = small_model();
  add_integers(model, "images", {0, 4, 2, 1});
  add_integers(model, "groups", {0, 2, -1});
  add_node(model, "Reshape", {"x", "images"}, "a");
  for (const char* name : {"ones", "zeros"}) {
    add_initializer(model, name, {2}).add_float_data(name[0] == 'o' ? 1 : 0);
    model.mutable_graph()->mutable_initializer()->rbegin()->add_float_data(name[0] == 'o' ? 1 : 0);
  }
  for (const char* name : {"onnx::Mul_1", "onnx::Add_2"})
    add_initializer(model, name, {4, 1, 1}).set_raw_data(std::string(16, name[6] == 'M' ? '\1' : '\2'));
  add_node(model, "Identity", {"onnx::Mul_1"}, "onnx::Mul_3");
  add_node(model, "Identity", {"onnx::Add_2"}, "onnx::Add_4");
  const auto norm = [&](const std::string& from, const std::string& scale, const std::string& shift,
                        const std::string& to) {
    add_node(model, "Reshape", {from, "groups"}, to + "_groups");
    add_node(model, "InstanceNormalization", {to + "_groups", "ones", "zeros"}, to + "_norm");
    add_node(model, "Reshape", {to + "_norm", "images"}, to + "_images");
    add_node(model, "Mul", {to + "_images", scale}, to + "_scaled");
    add_node(model, "Add", {to + "_scaled", shift}, to);
  };
  norm("a", "onnx::Mul_1", "onnx::Add_2", "b");
  norm("b", "onnx::Mul_3", "onnx::Add_4", "y");
  CHECK_EQ(plan_bytes(model.SerializeAsString(), 2).model.parameters, 2 * (4 + 4));
}

TEST_CASE("a batch of 2 that was written down is not taken for what lies before it") {
  // nn.MultiheadAttention's queries: [50, batch, 96] as [50, batch x 4, 24], whose 50 can be divided by 2, too.
  onnx::ModelProto model = small_model();
  auto& shape = *model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape.mutable_dim(0)->set_dim_value(2);
  shape.mutable_dim(1)->set_dim_value(50);
  shape.add_dim()->set_dim_value(96);
  add_integers(model, "heads", {50, 8, 24});
  onnx::NodeProto& turned = add_node(model, "Transpose", {"x"}, "turned");
  onnx::AttributeProto& order = *turned.add_attribute();
  order.set_name("perm");
  for (const int i : {1, 0, 2}) order.add_ints(i);
  add_node(model, "Reshape", {"turned", "heads"}, "y");
  CHECK(contains(spec_of(model.SerializeAsString()), "Reshape([50, -1, 24])"));
}

TEST_CASE("a table that was folded for the batch of the export is one for any batch") {
  onnx::ModelProto model = small_model();
  write_batch(model, 2);
  add_initializer(model, "zeros_like", {2, 8}, 6);
  add_node(model, "Cast", {"zeros_like"}, "zeros").add_attribute()->set_name("to");
  model.mutable_graph()->mutable_node(0)->mutable_attribute(0)->set_i(1);
  add_node(model, "Add", {"x", "zeros"}, "y");
  CHECK(contains(spec_of(model.SerializeAsString()), "Buffer([1, 8])"));
  CHECK_GT(plan_bytes(model.SerializeAsString(), 5).peak.reading.requested_bytes, 0);
}

// torch.onnx.export(model, (torch.randn(1, ...),)): what its reshapes of [50, 1, 96] in nn.MultiheadAttention come to.
TEST_CASE("a batch of 1 that was written down is free") {
  const auto written = [](const std::vector<std::int64_t>& between, const std::vector<std::int64_t>& sizes) {
    onnx::ModelProto model = small_model();
    auto& shape = *model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
    shape.mutable_dim(0)->set_dim_value(1);
    shape.mutable_dim(1)->set_dim_value(50);
    for (const std::int64_t size : between) shape.add_dim()->set_dim_value(size);
    onnx::NodeProto& turned = add_node(model, "Transpose", {"x"}, "turned");
    onnx::AttributeProto& order = *turned.add_attribute();
    order.set_name("perm");
    for (int i = 0; i < shape.dim_size(); ++i) order.add_ints(i < 2 ? 1 - i : i);
    add_integers(model, "sizes", sizes);
    add_node(model, "Reshape", {"turned", "sizes"}, "y");
    return spec_of(model.SerializeAsString());
  };
  CHECK(contains(written({96}, {50, 4, 24}), "Reshape([50, -1, 24])"));  // heads
  CHECK(contains(written({4, 24}, {50, 96}), "Reshape([-1, 96])"));      // rows of a product
  CHECK(contains(written({96}, {50, 1, 4, 24}), "Reshape([50, -1, 4, 24])"));
}

// as_strided of torch.onnx's newer exporter: all elements in order, by positions that were computed for a batch of 1.
TEST_CASE("a gather of all elements in order is a reshape where the batch was written down") {
  onnx::ModelProto model = small_model();
  write_batch(model, 1);
  add_integers(model, "flat", {-1});
  add_node(model, "Reshape", {"x", "flat"}, "elements");
  add_integers(model, "all", {0, 1, 2, 3, 4, 5, 6, 7});
  auto& dims = *model.mutable_graph()->mutable_initializer()->rbegin();
  dims.clear_dims();
  for (const int size : {1, 8, 1}) dims.add_dims(size);
  add_node(model, "Gather", {"elements", "all"}, "y");
  CHECK_EQ(plan_bytes(model.SerializeAsString(), 4).layers.back().output_shape, Shape{4, 8, 1});
}
