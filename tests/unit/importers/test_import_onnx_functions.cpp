// Functions of a model's own, and branches: a model is read as what their calls and choices come to.
#include <doctest/doctest.h>

#include <string>

#include "onnx_schema/onnx.pb.h"
#include "tests/support/onnx_files.h"

using namespace gpuplan;
using namespace gpuplan::onnx_files;

namespace {

onnx::NodeProto& add_to(onnx::FunctionProto& body, const std::string& op, const std::vector<std::string>& inputs,
                        const std::string& output) {
  onnx::NodeProto& node = *body.add_node();
  node.set_op_type(op);
  node.set_name(op);
  for (const std::string& i : inputs) node.add_input(i);
  node.add_output(output);
  return node;
}

onnx::FunctionProto& add_function(onnx::ModelProto& model, const std::string& name,
                                  const std::vector<std::string>& inputs, const std::string& output) {
  onnx::FunctionProto& function = *model.add_functions();
  function.set_domain("mine");
  function.set_name(name);
  for (const std::string& i : inputs) function.add_input(i);
  function.add_output(output);
  return function;
}

onnx::NodeProto& add_call(onnx::ModelProto& model, const std::string& name, const std::vector<std::string>& inputs,
                          const std::string& output) {
  onnx::NodeProto& call = add_node(model, name, inputs, output);
  call.set_domain("mine");
  return call;
}

// As fields of a function that schemas before ONNX 1.14 do not have: 11, the default of an attribute.
void add_default(onnx::FunctionProto& function, const onnx::AttributeProto& attribute) {
  const std::string text = attribute.SerializeAsString();
  REQUIRE_LT(text.size(), 128);
  function.mutable_unknown_fields()->append(1, static_cast<char>(11 << 3 | 2));
  function.mutable_unknown_fields()->append(1, static_cast<char>(text.size()));
  function.mutable_unknown_fields()->append(text);
}

onnx::AttributeProto real(const std::string& name, float number) {
  onnx::AttributeProto attribute;
  attribute.set_name(name);
  attribute.set_f(number);
  attribute.set_type(onnx::AttributeProto::FLOAT);
  return attribute;
}

// leaky(x) = LeakyRelu(x, alpha = slope), of slope 0.2 where a call gives none.
onnx::ModelProto model_of_slopes() {
  onnx::ModelProto model = small_model();
  onnx::FunctionProto& leaky = add_function(model, "Leaky", {"a"}, "b");
  onnx::AttributeProto& alpha = *add_to(leaky, "LeakyRelu", {"a"}, "b").add_attribute();
  alpha.set_name("alpha");
  alpha.set_ref_attr_name("slope");
  alpha.set_type(onnx::AttributeProto::FLOAT);
  add_default(leaky, real("slope", 0.2F));
  return model;
}

onnx::NodeProto& add_if(onnx::ModelProto& model, const std::string& condition, const std::string& output) {
  onnx::NodeProto& node = add_node(model, "If", {condition}, output);
  for (const std::string name : {"then_branch", "else_branch"}) {
    onnx::AttributeProto& branch = *node.add_attribute();
    branch.set_name(name);
    branch.set_type(onnx::AttributeProto::GRAPH);
    branch.mutable_g()->add_output()->set_name("result");
  }
  return node;
}

onnx::NodeProto& add_to_branch(onnx::NodeProto& choice, int branch, const std::string& op,
                               const std::vector<std::string>& inputs) {
  onnx::NodeProto& node = *choice.mutable_attribute(branch)->mutable_g()->add_node();
  node.set_op_type(op);
  node.set_name(op + "_of_branch");
  for (const std::string& i : inputs) node.add_input(i);
  node.add_output("result");
  return node;
}

void add_truth(onnx::ModelProto& model, const std::string& name, bool value) {
  onnx::TensorProto& tensor = *model.mutable_graph()->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(9);  // BOOL
  tensor.add_int32_data(value ? 1 : 0);
}

}  // namespace

TEST_CASE("a function of the model is its body, with the call's operands and attributes") {
  onnx::ModelProto model = model_of_slopes();
  *add_call(model, "Leaky", {"x"}, "c").add_attribute() = real("slope", 0.3F);
  add_call(model, "Leaky", {"c"}, "y");
  const std::string spec = spec_of(model.SerializeAsString());
  CHECK(contains(spec, "LeakyReLU(0.3)"));
  CHECK(contains(spec, "LeakyReLU(0.2)"));
}

TEST_CASE("a function that is called twice has the weights that it is given") {
  onnx::ModelProto model = small_model();
  onnx::FunctionProto& function = add_function(model, "Block", {"a", "w"}, "c");
  add_to(function, "MatMul", {"a", "w"}, "b");
  add_to(function, "Relu", {"b"}, "c");
  onnx::FunctionProto& outer = add_function(model, "Twice", {"a", "v", "w"}, "d");
  add_to(outer, "Block", {"a", "v"}, "b").set_domain("mine");
  add_to(outer, "Block", {"b", "w"}, "d").set_domain("mine");
  add_initializer(model, "one.weight", {8, 6});
  add_initializer(model, "two.weight", {6, 3});
  add_call(model, "Twice", {"x", "one.weight", "two.weight"}, "y");
  const Report report = plan_bytes(model.SerializeAsString(), 2);
  CHECK_EQ(report.model.parameters, 8 * 6 + 6 * 3);
  CHECK_EQ(report.compute.forward_macs, 2 * (8 * 6 + 6 * 3));
  const std::string spec = spec_of(model.SerializeAsString());
  CHECK(contains(spec, "- one: Linear(8, 6, bias=False)\n"));
  CHECK(contains(spec, "- two: Linear(6, 3, bias=False)\n"));
}

TEST_CASE("functions without end are refused, whatever they would come to") {
  onnx::ModelProto itself = small_model();
  add_to(add_function(itself, "Again", {"a"}, "b"), "Again", {"a"}, "b").set_domain("mine");
  add_call(itself, "Again", {"x"}, "y");
  CHECK(contains(problem(itself.SerializeAsString()), "is nested in more than 32 functions and branches"));

  onnx::ModelProto doubling = small_model();  // 2^30 nodes of a kilobyte
  for (int i = 0; i < 30; ++i) {
    onnx::FunctionProto& function = add_function(doubling, "F" + std::to_string(i), {"a"}, "c");
    const std::string inner = "F" + std::to_string(i + 1);
    add_to(function, i < 29 ? inner : "Relu", {"a"}, "b").set_domain(i < 29 ? "mine" : "");
    add_to(function, i < 29 ? inner : "Relu", {"b"}, "c").set_domain(i < 29 ? "mine" : "");
  }
  add_call(doubling, "F0", {"x"}, "y");
  CHECK(
      contains(problem(doubling.SerializeAsString()), "with its functions written out it has more than 524288 nodes"));

  onnx::ModelProto twice = model_of_slopes();
  (void)add_function(twice, "Leaky", {"a"}, "b");
  CHECK(contains(problem(twice.SerializeAsString()), "two functions are named \"mine::Leaky\""));

  onnx::ModelProto many = model_of_slopes();
  add_call(many, "Leaky", {"x", "x"}, "y");
  CHECK(contains(problem(many.SerializeAsString()), "has more operands or results than its function"));

  onnx::ModelProto nothing = small_model();
  add_to(add_function(nothing, "F", {"a"}, "c"), "Relu", {"x"}, "c");
  add_call(nothing, "F", {"x"}, "y");  // a body does not see what is around its call
  CHECK(contains(problem(nothing.SerializeAsString()), "reads \"x\", which nothing computes"));
}

TEST_CASE("an If is the branch that its condition takes") {
  for (const bool when : {true, false}) {
    CAPTURE(when);
    onnx::ModelProto model = small_model();
    add_truth(model, "condition", when);
    onnx::NodeProto& choice = add_if(model, "condition", "y");
    add_to_branch(choice, when ? 0 : 1, "Sigmoid", {"x"});
    add_to_branch(choice, when ? 1 : 0, "Wavelet", {"x"});  // which nobody knows, and nothing runs
    CHECK(contains(spec_of(model.SerializeAsString()), "Sigmoid()"));
    choice.mutable_attribute(0)->mutable_g()->Swap(choice.mutable_attribute(1)->mutable_g());
    CHECK(contains(problem(model.SerializeAsString()),
                   "node Wavelet_of_branch (Wavelet): gpuplan does not know this operator"));
  }
}

TEST_CASE("an If within a branch that is not taken is not looked at") {
  onnx::ModelProto model = small_model();
  add_truth(model, "yes", true);
  onnx::NodeProto& outer = add_if(model, "yes", "y");
  add_to_branch(outer, 0, "Relu", {"x"});
  onnx::NodeProto& inner = add_to_branch(outer, 1, "If", {"yes"});
  for (const std::string name : {"then_branch", "else_branch"}) {
    onnx::AttributeProto& branch = *inner.add_attribute();
    branch.set_name(name);
    branch.mutable_g()->add_output()->set_name("within");
    onnx::NodeProto& node = *branch.mutable_g()->add_node();
    node.set_op_type("Wavelet");
    node.add_input("x");
    node.add_output("within");
  }
  CHECK(contains(spec_of(model.SerializeAsString()), "ReLU()"));
}

TEST_CASE("an If whose condition is computed is an error that names it") {
  onnx::ModelProto model = small_model();
  onnx::NodeProto& cast = add_node(model, "Cast", {"x"}, "condition");
  onnx::AttributeProto& to = *cast.add_attribute();
  to.set_name("to");
  to.set_i(9);
  onnx::NodeProto& choice = add_if(model, "condition", "y");
  add_to_branch(choice, 0, "Relu", {"x"});
  add_to_branch(choice, 1, "Relu", {"x"});
  CHECK(contains(problem(model.SerializeAsString()),
                 "its condition (\"condition\") is not known without running the model"));
  choice.mutable_attribute(1)->mutable_g()->clear_output();
  CHECK(contains(problem(model.SerializeAsString()), "has no branch of as many results as it has"));
}

TEST_CASE("what no layer computes is named at once, operators and nodes") {
  onnx::ModelProto model = small_model();
  auto& shape = *model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  for (const std::int64_t n : {4, 5, 6}) shape.add_dim()->set_dim_value(n);
  add_initializer(model, "first.weight", {8, 8, 3, 3, 3});
  add_initializer(model, "second.weight", {8, 8, 2, 2, 2});
  add_node(model, "Conv", {"x", "first.weight"}, "a");
  add_node(model, "Sign", {"a"}, "b");
  add_node(model, "Conv", {"b", "second.weight"}, "y");
  const std::string text = problem(model.SerializeAsString());
  CHECK(contains(text, "operators that no layer of gpuplan computes:"));
  CHECK(contains(text, "Sign: node_of_b"));
  CHECK(contains(text, "node node_of_a (Conv): no layer Conv3d"));
  CHECK(contains(text, "node node_of_y (Conv): no layer Conv3d"));
}
