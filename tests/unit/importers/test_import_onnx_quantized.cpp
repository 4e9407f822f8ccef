// ONNX files of other origin than torch.onnx: quantized by pairs of operators, with onnxruntime's products, and with
// normalisation by neighbouring channels.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "estimator/device/read_gpu.h"
#include "estimator/plan/plan.h"
#include "estimator/spec/read.h"
#include "layers/catalog.h"
#include "onnx_schema/onnx.pb.h"
#include "tests/support/onnx_files.h"
#include "tests/support/readings.h"
#include "tools/process/read_source.h"

namespace gpuplan {

using namespace onnx_files;

namespace {

constexpr int kFloat = 1, kInt8 = 3, kInt32 = 6;  // TensorProto.DataType

// x [batch, channels, size, size].
onnx::ModelProto of_images(std::int64_t channels, std::int64_t size) {
  onnx::ModelProto model = small_model();
  auto& shape = *model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape.mutable_dim(1)->set_dim_value(channels);
  for (int i = 0; i < 2; ++i) shape.add_dim()->set_dim_value(size);
  return model;
}

onnx::ModelProto with_scales() {
  onnx::ModelProto model = of_images(8, 16);
  add_initializer(model, "scale", {});
  add_initializer(model, "zero", {}, kInt8);
  return model;
}

std::string quantized(onnx::ModelProto& model, const std::string& of) {
  add_node(model, "QuantizeLinear", {of, "scale", "zero"}, of + "_q");
  return of + "_q";
}
std::string through_pair(onnx::ModelProto& model, const std::string& of, const std::string& to) {
  const std::string q = quantized(model, of);
  add_node(model, "DequantizeLinear", {q, "scale", "zero"}, to);
  return to;
}

// A training step with SGD on an H200, whose output and loss are gone when its function returns.
Report plan_step(const onnx::ModelProto& model, std::int64_t batch) {
  RunConfig run;
  run.batch = batch;
  run.loop = Loop::function;
  const Gpu h200 = read_gpu(*read_file_source(std::string(GPUPLAN_SOURCE_DIR) + "/configs/gpus/h200.yaml"));
  const auto spec = std::make_shared<const Source>(Source{"import:test.onnx", spec_of(model.SerializeAsString())});
  return plan(read_model(spec), make_catalog(), run, &h200);
}

}  // namespace

TEST_CASE("a quantized file is the model in floating point that it was made of, and says so") {
  onnx::ModelProto model = with_scales(), original = of_images(8, 16);
  through_pair(model, "x", "x_d");
  add_initializer(model, "conv.weight_quantized", {16, 8, 3, 3}, kInt8);
  add_initializer(model, "conv.bias_quantized", {16}, kInt32);
  add_node(model, "DequantizeLinear", {"conv.weight_quantized", "scale", "zero"}, "w");
  add_node(model, "DequantizeLinear", {"conv.bias_quantized", "scale", "zero"}, "b");
  add_node(model, "Conv", {"x_d", "w", "b"}, "c");
  through_pair(model, "c", "c_d");
  add_node(model, "Relu", {"c_d"}, "y");

  add_initializer(original, "conv.weight", {16, 8, 3, 3}, kFloat);
  add_initializer(original, "conv.bias", {16}, kFloat);
  add_node(original, "Conv", {"x", "conv.weight", "conv.bias"}, "c");
  add_node(original, "Relu", {"c"}, "y");

  const std::string text = spec_of(model.SerializeAsString()), wanted = spec_of(original.SerializeAsString());
  CHECK(contains(text, "# The file quantizes weights and results (QDQ)."));
  CHECK_FALSE(contains(wanted, "QDQ"));
  CHECK(contains(wanted, "- conv: Conv2d(8, 16, 3)\n"));
  CHECK_EQ(text.substr(text.find("layers:")), wanted.substr(wanted.find("layers:")));
}

TEST_CASE("operators that compute with integers are not known") {
  onnx::ModelProto model = with_scales();
  add_node(model, "ConvInteger", {quantized(model, "x"), "w"}, "y");
  add_initializer(model, "w", {16, 8, 3, 3}, kInt8);
  CHECK(contains(problem(model.SerializeAsString()), "operators that gpuplan does not know:"));
}

TEST_CASE("onnxruntime's products with transposed operands are Transpose, MatMul and Mul") {
  onnx::ModelProto model = of_images(4, 16);
  onnx::NodeProto& product = add_node(model, "FusedMatMul", {"x", "w"}, "y");
  product.set_domain("com.microsoft");
  add_initializer(model, "w", {32, 16});
  const auto set = [&](const std::string& name) -> onnx::AttributeProto& {
    onnx::AttributeProto& attribute = *product.add_attribute();
    attribute.set_name(name);
    return attribute;
  };
  set("transB").set_i(1);
  CHECK(contains(spec_of(model.SerializeAsString()), "Linear(16, 32, bias=False)"));
  set("alpha").set_f(0.125F);
  CHECK(contains(spec_of(model.SerializeAsString()), "Mul(other=0.125)"));
  set("transBatchA").set_i(1);
  CHECK(contains(problem(model.SerializeAsString()), "an operand whose batch is transposed is not modelled"));
}

// nn.Sequential(nn.Conv2d(3, 16, 3), nn.LocalResponseNorm(5)) of x [4, 3, 34, 34] without a gradient, SGD: PyTorch 2.15
// under gpuplan shadow --gpu h200, the steady step. The graph of the same has the same bytes in every phase.
TEST_CASE("normalisation by neighbouring channels is torch.nn.functional's") {
  onnx::ModelProto model = of_images(3, 34);
  add_initializer(model, "conv.weight", {16, 3, 3, 3});
  add_initializer(model, "conv.bias", {16});
  add_node(model, "Conv", {"x", "conv.weight", "conv.bias"}, "c");
  onnx::AttributeProto& size = *add_node(model, "LRN", {"c"}, "y").add_attribute();
  size.set_name("size");
  size.set_i(5);
  struct RecordedPhase {
    std::string name;
    Reading live, peak;
  };
  const RecordedPhase recorded[] = {{"forward", {1433536, 1434624, 4194304}, {1433536, 1434624, 4194304}},
                                    {"loss", {1433540, 1435136, 4194304}, {1433540, 1435136, 4194304}},
                                    {"backward", {321220, 323584, 4194304}, {2744264, 2746368, 4194304}},
                                    {"optimizer", {59072, 60928, 4194304}, {321220, 323584, 4194304}}};
  const Report report = plan_step(model, 4);
  for (const RecordedPhase& phase : recorded) {
    INFO(phase.name);
    const auto row = std::ranges::find_if(
        report.phases, [&](const PhaseRow& r) { return r.steady && name_of(r.phase) == phase.name; });
    REQUIRE(row != report.phases.end());
    check_equal(row->live, phase.live);
    check_equal(row->peak, phase.peak);
  }
}

}  // namespace gpuplan
