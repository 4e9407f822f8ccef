#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include "estimator/plan/plan.h"
#include "estimator/spec/read.h"
#include "layers/catalog.h"
#include "onnx_schema/onnx.pb.h"
#include "tests/support/onnx_files.h"
#include "tools/importers/onnx/import_onnx.h"

using namespace gpuplan;
using namespace gpuplan::onnx_files;

namespace {

const std::string kFolder = std::string(GPUPLAN_SOURCE_DIR) + "/tests/onnx/";

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& bytes)
      : path_((std::filesystem::temp_directory_path() / ("gpuplan_onnx_" + std::to_string(::getpid()) + ".onnx"))
                  .string()) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

namespace gpuplan::onnx_files {

Report plan_onnx(const std::string& path, std::int64_t batch, std::vector<Variable> set) {
  const auto source = std::make_shared<const Source>(Source{"import:" + path, import_onnx(path, set)});
  RunConfig run;
  run.mode = Mode::infer;
  run.optimizer.kind = OptimizerKind::none;
  run.batch = batch;
  return plan(read_model(source), make_catalog(), run);
}

std::string problem(const std::string& bytes, std::vector<Variable> set) {
  const TemporaryFile file(bytes);
  try {
    (void)import_onnx(file.path(), set);
  } catch (const Error& error) {
    return error.render();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A model of one input [batch, 8] and no nodes.
void write_batch(onnx::ModelProto& model, std::int64_t batch) {
  onnx::TypeProto& type = *model.mutable_graph()->mutable_input(0)->mutable_type();
  type.mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_value(batch);
}

onnx::ModelProto small_model() {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  onnx::GraphProto& graph = *model.mutable_graph();
  auto& input = *graph.add_input();
  input.set_name("x");
  auto& type = *input.mutable_type()->mutable_tensor_type();
  type.set_elem_type(1);
  type.mutable_shape()->add_dim()->set_dim_param("batch");
  type.mutable_shape()->add_dim()->set_dim_value(8);
  graph.add_output()->set_name("y");
  return model;
}

onnx::NodeProto& add_node(onnx::ModelProto& model, const std::string& op, const std::vector<std::string>& inputs,
                          const std::string& output) {
  onnx::NodeProto& node = *model.mutable_graph()->add_node();
  node.set_op_type(op);
  node.set_name("node_of_" + output);
  for (const std::string& i : inputs) node.add_input(i);
  node.add_output(output);
  return node;
}

onnx::TensorProto& add_initializer(onnx::ModelProto& model, const std::string& name,
                                   const std::vector<std::int64_t>& sizes, int type) {
  onnx::TensorProto& tensor = *model.mutable_graph()->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(type);
  for (const std::int64_t n : sizes) tensor.add_dims(n);
  return tensor;
}

onnx::TensorProto& add_integers(onnx::ModelProto& model, const std::string& name,
                                const std::vector<std::int64_t>& numbers) {
  onnx::TensorProto& tensor = add_initializer(model, name, {static_cast<std::int64_t>(numbers.size())}, 7);
  for (const std::int64_t n : numbers) tensor.add_int64_data(n);
  return tensor;
}

std::string spec_of(const std::string& bytes) {
  const TemporaryFile file(bytes);
  std::vector<Variable> set;
  return import_onnx(file.path(), set);
}

Report plan_bytes(const std::string& bytes, std::int64_t batch) {
  const TemporaryFile file(bytes);
  return plan_onnx(file.path(), batch);
}

}  // namespace gpuplan::onnx_files

TEST_CASE("parameters and multiply-adds of torch.onnx's files are PyTorch's") {
  std::ifstream table(kFolder + "expected.tsv");
  REQUIRE(table);
  std::string line;
  std::getline(table, line);
  std::getline(table, line);
  int models = 0;
  while (std::getline(table, line)) {
    std::istringstream row(line);
    std::string name;
    std::int64_t parameters = 0;
    std::int64_t macs = 0;
    row >> name >> parameters >> macs;
    CAPTURE(name);
    const Report report = plan_onnx(kFolder + name + ".onnx", 2);
    CHECK_EQ(report.model.parameters, parameters);
    CHECK_EQ(report.compute.forward_macs, macs);
    CHECK_EQ(plan_onnx(kFolder + name + ".onnx", 6).compute.forward_macs, 3 * macs);  // the batch is free
    ++models;
  }
  CHECK_GE(models, 20);
}

TEST_CASE("what is one operation of PyTorch's is one layer") {
  const auto spec = [](const std::string& name) {
    std::vector<Variable> set;
    return import_onnx(kFolder + name + ".onnx", set);
  };
  CHECK(contains(spec("resnet18_train"), "- layer1.0.bn1: BatchNorm2d(64)\n"));
  CHECK(contains(spec("vit_opset14"), "LayerNorm(64, eps=1e-06)"));
  CHECK(contains(spec("vit_opset14"), "GELU()"));
  CHECK(contains(spec("vit_opset14"), "- class_token: ClassToken(64)\n"));
  CHECK(contains(spec("vit_dynamo"), "ScaledDotProductAttention()"));
  CHECK(contains(spec("convnext_train"), "StochasticDepth("));
  CHECK(contains(spec("mobilenet_v3_train"), "Hardswish()"));
  CHECK(contains(spec("llama"), "LlamaRMSNorm(32, eps=1e-06)"));
  CHECK(contains(spec("gpt2"), "NewGELU()"));
  CHECK(contains(spec("gpt2"), "tie: model.transformer.wte"));
  CHECK(contains(spec("segmenter"), "GroupNorm(4, 16)"));
  CHECK(contains(spec("segmenter"), "GELU(approximate='tanh')"));
  CHECK(contains(spec("squeezenet_opset9"), "ceil_mode=True"));
}

TEST_CASE("weights are not read: a file of a gibibyte imports like a small one") {
  onnx::ModelProto model = small_model();
  add_node(model, "MatMul", {"x", "fc.weight"}, "y");
  std::string bytes = model.SerializeAsString();
  // An initializer as the last field of a graph of its own, which is merged into the first: its data are a hole.
  constexpr std::uint32_t kData = std::uint32_t{8} * (1U << 25) * 4;
  const auto varint = [](std::uint64_t value) {
    std::string text;
    for (; value > 127; value >>= 7) text += static_cast<char>(value | 128);
    return text + static_cast<char>(value);
  };
  onnx::TensorProto header;
  header.set_name("fc.weight");
  header.set_data_type(1);
  header.add_dims(8);
  header.add_dims(std::int64_t{1} << 25);
  const std::string data = "\x4A" + varint(kData);  // field 9, raw_data
  const std::string tensor =
      "\x2A" + varint(header.ByteSizeLong() + data.size() + kData) + header.SerializeAsString() + data;
  bytes += "\x3A" + varint(tensor.size() + kData) + tensor;
  const TemporaryFile file(bytes);
  std::filesystem::resize_file(file.path(), bytes.size() + kData);
  CHECK_EQ(plan_onnx(file.path(), 1).model.parameters, std::int64_t{1} << 28);
  std::filesystem::resize_file(file.path(), bytes.size() + kData - 1);
  std::vector<Variable> set;
  CHECK_THROWS_AS((void)import_onnx(file.path(), set), Error);
}

// Not timed: where names or tied weights were looked for among all the others, this would take minutes.
TEST_CASE("nodes without names, each with a weight, are numbered, however many they are") {
  constexpr int kNodes = 40000;
  onnx::ModelProto model = small_model();
  std::string before = "x";
  for (int i = 0; i < kNodes; ++i) {
    const std::string weight = "onnx::MatMul_" + std::to_string(i);
    const std::string result = i + 1 == kNodes ? "y" : "onnx::Add_" + std::to_string(i);
    add_node(model, "MatMul", {before, weight}, result).clear_name();
    add_initializer(model, weight, {8, 8});
    before = result;
  }
  const std::string text = spec_of(model.SerializeAsString());
  CHECK(contains(text, "- matmul: Linear(8, 8, bias=False)\n"));
  CHECK(contains(text, "- matmul_" + std::to_string(kNodes - 2) + ": Linear(8, 8, bias=False)\n"));
}

TEST_CASE("a dynamic dimension that is not the batch needs a value") {
  onnx::ModelProto model = small_model();
  model.mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(1)
      ->set_dim_param("seq_len");
  add_node(model, "Relu", {"x"}, "y");
  const std::string bytes = model.SerializeAsString();
  const std::string text = problem(bytes);
  CHECK(contains(text, "the dynamic dimension \"seq_len\" has no value (dimension 1 of the input \"x\")"));
  CHECK(contains(text, "--set seq_len=128"));
  const TemporaryFile file(bytes);
  std::vector<Variable> set = {{"seq_len", 128}, {"other", 1}};
  CHECK(contains(import_onnx(file.path(), set), "input: {shape: [128]}"));
  REQUIRE_EQ(set.size(), 1);
  CHECK_EQ(set.front().name, "other");
}

TEST_CASE("a batch that the file has written down is still the batch") {
  CHECK_EQ(plan_onnx(kFolder + "vit_fixed.onnx", 5).compute.forward_macs * 2,
           plan_onnx(kFolder + "vit_fixed.onnx", 10).compute.forward_macs);
}

// A size of its own, beside the batch, would be planned as the batch.
TEST_CASE("the first dimension of every input is the batch, or the file is refused") {
  const auto problem_of = [](const std::function<void(onnx::TensorShapeProto_Dimension&)>& set, bool is_fixed = false) {
    onnx::ModelProto model = small_model();
    if (is_fixed) {
      auto& first = *model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
      first.mutable_dim(0)->clear_dim_param();
      first.mutable_dim(0)->set_dim_value(4);
    }
    onnx::ValueInfoProto& mask = *model.mutable_graph()->add_input();
    mask = model.graph().input(0);
    mask.set_name("mask");
    set(*mask.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0));
    add_node(model, "Add", {"x", "mask"}, "y");
    return problem(model.SerializeAsString());
  };
  const auto fixed = [](std::int64_t size) {
    return [size](onnx::TensorShapeProto_Dimension& d) { d.set_dim_value(size); };
  };
  CHECK_EQ(problem_of([](onnx::TensorShapeProto_Dimension&) {}), "");
  CHECK_EQ(problem_of([](onnx::TensorShapeProto_Dimension& d) { d.set_dim_param("mask_batch"); }), "");
  CHECK(contains(problem_of(fixed(1)), "the first dimension of the input \"mask\" is 1, that of \"x\" is \"batch\""));
  CHECK_EQ(problem_of(fixed(4), true), "");
  CHECK(contains(problem_of(fixed(2), true), "the first dimension of the input \"mask\" is 2, that of \"x\" is 4"));
}

TEST_CASE("operators that are not known are listed together") {
  onnx::ModelProto model = small_model();
  add_node(model, "Wavelet", {"x"}, "a");
  add_node(model, "Wavelet", {"a"}, "b");
  add_node(model, "MyOp", {"b"}, "y").set_domain("com.example");
  const std::string text = problem(model.SerializeAsString());
  CHECK(contains(text, "Wavelet: node_of_a and 1 more"));
  CHECK(contains(text, "com.example::MyOp: node_of_y"));
}

TEST_CASE("malformed ONNX graphs are answered with the node and what is wrong") {
  onnx::ModelProto cyclic = small_model();
  add_node(cyclic, "Add", {"x", "b"}, "a");
  add_node(cyclic, "Relu", {"a"}, "b");
  add_node(cyclic, "Relu", {"b"}, "y");
  CHECK(contains(problem(cyclic.SerializeAsString()), "the graph is cyclic: the node node_of_a (Add)"));

  onnx::ModelProto twice = small_model();
  add_node(twice, "Relu", {"x"}, "y");
  add_node(twice, "Relu", {"x"}, "y");
  CHECK(contains(problem(twice.SerializeAsString()), "two values are named \"y\""));

  onnx::ModelProto inputs = small_model();
  add_node(inputs, "Relu", {"x"}, "y");
  const auto same = inputs.graph().input(0);
  *inputs.mutable_graph()->add_input() = same;
  CHECK(contains(problem(inputs.SerializeAsString()), "two inputs are named \"x\""));

  onnx::ModelProto nothing = small_model();
  add_node(nothing, "Relu", {"z"}, "y");
  CHECK(contains(problem(nothing.SerializeAsString()), "reads \"z\", which nothing computes"));

  onnx::ModelProto negative = small_model();
  add_node(negative, "MatMul", {"x", "w"}, "y");
  add_initializer(negative, "w", {8, -2});
  CHECK(contains(problem(negative.SerializeAsString()), "the initializer \"w\" has a dimension of -2"));

  onnx::ModelProto huge = small_model();
  add_node(huge, "MatMul", {"x", "w"}, "y");
  add_initializer(huge, "w", {std::int64_t{1} << 40, std::int64_t{1} << 40});
  CHECK(contains(problem(huge.SerializeAsString()), "whose product does not fit in 64 bits"));

  onnx::ModelProto misfit = small_model();
  add_node(misfit, "MatMul", {"x", "w"}, "y");
  add_initializer(misfit, "w", {9, 2});
  CHECK(contains(problem(misfit.SerializeAsString()), "node node_of_y (MatMul): shapes [N, 8] and [9, 2] cannot"));

  onnx::ModelProto missing = small_model();
  add_node(missing, "Add", {"x"}, "y");
  CHECK(contains(problem(missing.SerializeAsString()), "node node_of_y (Add): input 1 is missing"));
}

// AttributeProto.AttributeType: 1 is FLOAT, 2 INT.
TEST_CASE("an attribute of another type than its operator has is an error that names both") {
  const std::string start = "node node_of_y (Softmax): the attribute \"axis\" is ";
  for (const bool is_typed : {true, false}) {
    CAPTURE(is_typed);
    onnx::ModelProto model = small_model();
    onnx::AttributeProto& axis = *add_node(model, "Softmax", {"x"}, "y").add_attribute();
    axis.set_name("axis");
    const auto becomes = [&](onnx::AttributeProto::AttributeType type, const std::string& what) {
      if (is_typed) axis.set_type(type);
      CHECK(contains(problem(model.SerializeAsString()), start + what + ", expected an int"));
      axis.Clear();
      axis.set_name("axis");
    };
    axis.set_f(1);
    becomes(onnx::AttributeProto::FLOAT, "a float");
    axis.set_s("1");
    becomes(onnx::AttributeProto::STRING, "a string");
    axis.add_ints(1);
    becomes(onnx::AttributeProto::INTS, "ints");
    axis.add_floats(1);
    becomes(onnx::AttributeProto::FLOATS, "floats");
    axis.add_strings("1");
    becomes(onnx::AttributeProto::STRINGS, "strings");
    axis.mutable_t()->set_data_type(7);
    becomes(onnx::AttributeProto::TENSOR, "a tensor");
  }
}

TEST_CASE("an attribute whose type and value do not agree is an error, one without its number is 0") {
  onnx::ModelProto model = small_model();
  onnx::AttributeProto& axis = *add_node(model, "Softmax", {"x"}, "y").add_attribute();
  axis.set_name("axis");
  axis.set_type(onnx::AttributeProto::INT);
  axis.set_f(1);
  CHECK(contains(problem(model.SerializeAsString()), "is of another type than it names, expected an int"));
  axis.clear_f();
  CHECK(contains(spec_of(model.SerializeAsString()), "Softmax(dim=0)"));
}

TEST_CASE("attributes that a pattern looks for, or that a fused operator has, have their types too") {
  onnx::ModelProto pattern = small_model();  // x hardsigmoid(x)
  onnx::AttributeProto& alpha = *add_node(pattern, "HardSigmoid", {"x"}, "a").add_attribute();
  alpha.set_name("alpha");
  alpha.set_i(1);
  add_node(pattern, "Mul", {"x", "a"}, "y");
  CHECK(contains(problem(pattern.SerializeAsString()),
                 "node node_of_a (HardSigmoid): the attribute \"alpha\" is an int, expected a float"));

  onnx::ModelProto fused = small_model();
  onnx::NodeProto& gemm = add_node(fused, "FusedGemm", {"x", "w"}, "y");
  gemm.set_domain("com.microsoft");
  add_initializer(fused, "w", {8, 2});
  onnx::AttributeProto& activation = *gemm.add_attribute();
  activation.set_name("activation");
  activation.set_i(1);
  CHECK(contains(problem(fused.SerializeAsString()),
                 "(com.microsoft::FusedGemm): the attribute \"activation\" is an int, expected a string"));
}

TEST_CASE("what is no ONNX file is refused, whatever it is") {
  CHECK(contains(problem(""), "no ONNX model"));
  CHECK(contains(problem("PK\x03\x04 a zip archive, as torch.save writes it"), "not a complete ONNX model"));
  CHECK(contains(problem(std::string(64, '\xFF')), "not a complete ONNX model"));
  std::vector<Variable> set;
  CHECK_THROWS_AS((void)import_onnx(kFolder, set), Error);
  CHECK_THROWS_AS((void)import_onnx(kFolder + "none.onnx", set), Error);
  // Messages within each other, a million deep if they were followed.
  std::string deep;
  for (int i = 0; i < 60; ++i) {
    std::string length;
    for (std::size_t n = deep.size(); n > 127 || length.empty(); n >>= 7) {
      length += static_cast<char>(n > 127 ? (n | 128) : n);
      if (n <= 127) break;
    }
    if (length.empty() || (length.back() & '\x80') != 0)
      length += static_cast<char>(deep.size() >> (7 * length.size()));
    deep = "\x3A" + length + deep;
  }
  CHECK_NE(problem(deep), "");
}

TEST_CASE("an ONNX file cut anywhere is an error or a model") {
  const std::string whole = bytes_of(kFolder + "recurrent.onnx");
  for (std::size_t size = 0; size < whole.size(); size += 29) {
    CAPTURE(size);
    CHECK_NE(problem(whole.substr(0, size)), "");
  }
}
