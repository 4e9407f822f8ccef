// Rules of single layers that their recordings do not show: errors, older releases, names, views.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "estimator/graph/build.h"
#include "tests/support/lower_calls.h"
#include "tests/support/test_spec.h"

namespace gpuplan {
namespace {

Lowered lower_one(const std::string& call, const std::vector<Shape>& inputs, const RunConfig& run = {},
                  DType dtype = DType::fp32) {
  return lower_calls({call}, inputs, dtype, run, assumed_gpu());
}

std::string error_of(const std::string& call, const std::vector<Shape>& inputs, DType dtype = DType::fp32) {
  try {
    lower_one(call, inputs, {}, dtype);
  } catch (const Error& e) {
    return e.message();
  }
  return "no error";
}

Shape shape_of(const std::string& call, const std::vector<Shape>& inputs) {
  const Lowered lowered = lower_one(call, inputs);
  return lowered.graph.tensors[static_cast<std::size_t>(lowered.outputs.front())].shape;
}

const Shape kImage{4, 8, 14, 14};

// torch.nn.Hardtanh asserts it, torch.celu divides by alpha.
TEST_CASE("activations refuse bounds that are no range, and an alpha of zero") {
  CHECK(error_of("Hardtanh(2, 1)", {kImage}) == "Hardtanh: max_val must be larger than min_val");
  CHECK(error_of("CELU(alpha=0)", {kImage}) == "CELU: alpha must not be zero");
  CHECK(error_of("Hardtanh(-2, 2)", {kImage}) == "no error");
}

TEST_CASE("a pooling size is rounded down, with ceil_mode up to the last window that starts inside") {
  CHECK(shape_of("MaxPool2d(3, stride=2)", {kImage}) == Shape{4, 8, 6, 6});  // (14 - 3) / 2 + 1 = 6.5
  CHECK(shape_of("MaxPool2d(3, stride=2, ceil_mode=True)", {kImage}) == Shape{4, 8, 7, 7});
  // torch.nn.MaxPool2d(2, 2, padding=1, ceil_mode=True) on 3 x 3: ceil gives 3, the third window would start at 4 > 3.
  CHECK(shape_of("MaxPool2d(2, padding=1, ceil_mode=True)", {{1, 1, 3, 3}}) == Shape{1, 1, 2, 2});
  CHECK(shape_of("MaxPool2d((3, 2))", {kImage}) == Shape{4, 8, 4, 7});
}

// torch.ones(4, 8, 14, 14, dtype=torch.bool).sum(1).dtype is torch.int64, as for every integer type.
TEST_CASE("sums of booleans and integers are int64") {
  for (const DType dtype : {DType::boolean, DType::int32, DType::int64}) {
    const Lowered lowered = lower_one("Sum(dim=1)", {kImage}, {}, dtype);
    const Tensor& sum = lowered.graph.tensors[static_cast<std::size_t>(lowered.outputs.front())];
    CHECK(sum.dtype == DType::int64);
    CHECK(sum.shape == Shape{4, 14, 14});
  }
}

TEST_CASE("shapes that do not fit are refused with what was expected") {
  CHECK(error_of("MaxPool2d(2)", {{4, 8}}) == "MaxPool2d: expects an input [N, C, H, W], got [4, 8]");
  CHECK(error_of("MaxPool2d(3, padding=2)", {kImage}).find("padding 2 is more than half") != std::string::npos);
  CHECK(error_of("AvgPool2d(15)", {kImage}).find("reaches over 15 positions, the padded input has 14") !=
        std::string::npos);
  CHECK(error_of("Softmax(dim=4)", {kImage}).find("dimension 4 is out of range") != std::string::npos);
  CHECK(error_of("Mean(dim=[1, -3])", {kImage}).find("named twice") != std::string::npos);
  CHECK(error_of("View(4, 100)", {kImage}).find("[4, 100] do not fit the input [4, 8, 14, 14] of 6272") !=
        std::string::npos);
  CHECK(error_of("View(-1, -1)", {kImage}).find("only one size can be -1") != std::string::npos);
  CHECK(error_of("Permute(0, 1, 2)", {kImage}).find("3 dimensions are listed") != std::string::npos);
  CHECK(error_of("Split([3, 4], dim=1)", {kImage}).find("add up to 7, dimension 1") != std::string::npos);
  CHECK(error_of("Add()", {kImage, {4, 3, 1, 1}}).find("3 in dimension -3") != std::string::npos);
  CHECK(error_of("Add(inplace=True)", {{4, 8, 1, 1}, kImage}).find("would have to grow") != std::string::npos);
  CHECK(error_of("Add()", {kImage}).find("needs two inputs") != std::string::npos);
  CHECK(error_of("Cat(dim=1)", {kImage, {4, 8, 14, 7}}).find("does not join") != std::string::npos);
  CHECK(error_of("Embedding(10, 4)", {{4, 8}}).find("expects integer indices") != std::string::npos);
  CHECK(error_of("Dropout(1.5)", {kImage}).find("probability") != std::string::npos);
  CHECK(error_of("CrossEntropyLoss(reduction=\"batchmean\")", {{8, 10}}).find("unknown reduction") !=
        std::string::npos);
  CHECK(error_of("ConvTranspose2d(9, 4, 2)", {kImage}).find("expects 9 input channels, its input has 8") !=
        std::string::npos);
  CHECK(error_of("Upsample(size=2, scale_factor=2)", {kImage}).find("either size or scale_factor") !=
        std::string::npos);
}

TEST_CASE("a weight that is an input and one of the layer's own contradict each other") {
  CHECK(error_of("LayerNorm(8)", {{4, 8}, {8}, {8}}) == "no error");
  CHECK(error_of("LayerNorm(8, elementwise_affine=False)", {{4, 8}, {8}}) == "no error");
  CHECK(error_of("LayerNorm(8, elementwise_affine=True)", {{4, 8}, {8}}).find("the weight is an input") !=
        std::string::npos);
  CHECK(error_of("LayerNorm(8, bias=True)", {{4, 8}, {8}}).find("the weight is an input") != std::string::npos);
  CHECK(error_of("LayerNorm(8)", {{4, 8}, {4}}).find("expects [8] as its weight") != std::string::npos);
}

TEST_CASE("a sequence longer than the positions that are learned is refused") {
  CHECK(error_of("OPTLearnedPositionalEmbedding(16, 4)", {{2, 16}}, DType::int64) == "no error");
  CHECK(error_of("OPTLearnedPositionalEmbedding(16, 4)", {{2, 17}}, DType::int64).find("17 tokens") !=
        std::string::npos);
  CHECK(error_of("WhisperPositionalEmbedding(16, 4)", {{2, 17}}, DType::int64).find("17 tokens") != std::string::npos);
  CHECK(error_of("CausalBuffers(16)", {{2, 17, 4}}).find("17 tokens") != std::string::npos);
}

// torch.nn.functional.embedding_bag: indices [N, L], or [indices] with offsets [N].
TEST_CASE("an EmbeddingBag takes rows of indices, or one row with offsets") {
  CHECK(error_of("EmbeddingBag(10, 4)", {{4, 8}}, DType::int64) == "no error");
  CHECK(error_of("EmbeddingBag(10, 4)", {{8}, {3}}, DType::int64) == "no error");
  CHECK(error_of("EmbeddingBag(10, 4)", {{8}, {3, 1}}, DType::int64).find("expects offsets [N]") != std::string::npos);
  CHECK(error_of("EmbeddingBag(10, 4)", {{8}}, DType::int64).find("expects indices [N, L]") != std::string::npos);
}

// derivatives.yaml before 2.0: mean.dim's backward took self; mean over all dimensions its sizes.
std::vector<std::string> operators_of(const Lowered& lowered) {
  std::vector<std::string> names;
  for (const Op& op : lowered.graph.forward_ops)
    if (!std::holds_alternative<Marker>(op.what)) names.emplace_back(name_of(op.kind));
  return names;
}

// aten/src/ATen/native/SoftMax.cpp, softmax and log_softmax: on CUDA Half to Float is the kernel's own (half_to_float),
// any other type is converted before.
TEST_CASE("softmax computes in the type that it is given") {
  RunConfig run;
  for (const char* name : {"softmax", "log_softmax"}) {
    const std::string call =
        std::string(name == std::string("softmax") ? "Softmax" : "LogSoftmax") + "(-1, dtype=float32)";
    const std::string kernel = std::string("aten::_") + name;
    for (const auto& [dtype, expected] : {std::pair<DType, std::vector<std::string>>{DType::fp32, {kernel}},
                                          {DType::fp16, {kernel}},
                                          {DType::bf16, {"aten::to", kernel}}}) {
      run.precision = dtype;
      const Lowered lowered = lower_one(call, {{4, 8}}, run, dtype);
      const Tensor& result = lowered.graph.tensors[static_cast<std::size_t>(lowered.outputs.front())];
      CHECK(result.dtype == DType::fp32);
      CHECK(operators_of(lowered) == expected);
    }
  }
  CHECK(error_of("Softmax(-1, dtype=int64)", {{4, 8}}) == "Softmax: \"int64\" is not a floating type");
}

// aten/src/ATen/native/ReduceOpsUtils.h, make_reduction_from_out_ty: on CUDA a half tensor is reduced to fp32 as it is.
// The recorded steps are in tests/torch/export_operators.py, mean_in_float and sum_in_float.
TEST_CASE("a mean and a sum are computed and returned in the type that they are given") {
  RunConfig run;
  run.precision = DType::bf16;
  for (const char* call : {"Mean(-1, dtype=float32)", "Sum(-1, dtype=float32)"}) {
    const Lowered lowered = lower_one(call, {{4, 8}}, run, DType::bf16);
    CHECK(lowered.graph.tensors[static_cast<std::size_t>(lowered.outputs.front())].dtype == DType::fp32);
    const auto& work = std::get<Reduction>(lowered.graph.forward_ops.front().what);
    CHECK(work.input == DType::bf16);
    CHECK_FALSE(work.converts);
  }
  const Lowered wide = lower_one("Sum(-1, dtype=float64)", {{4, 8}}, run, DType::bf16);
  CHECK(std::get<Reduction>(wide.graph.forward_ops.front().what).converts);
  CHECK(error_of("Mean(-1)", {{4, 8}}, DType::int64).find("a mean of integers") != std::string::npos);
  CHECK(error_of("Mean(-1, dtype=whole)", {{4, 8}}) == "Mean: unknown dtype \"whole\"");
}

TEST_CASE("a sum of integers has no gradient, and a type that is needed is named") {
  CHECK(error_of("Sum(-1, dtype=int64)", {{4, 8}}) ==
        "Sum: a sum of integers has no gradient, and its input wants one");
  CHECK(error_of("Sum(-1, dtype=int64)", {{4, 8}}, DType::int32) == "no error");
  CHECK(error_of("Mean(dtype=int64)", {{4, 8}}) == "Mean: a mean has a floating type");
  CHECK(error_of("To(None)", {{4, 8}}) == "To: dtype is None, and a type is needed");
}

// transformers/models/t5/modeling_t5.py and models/whisper/modeling_whisper.py; recorded runs of both are in fp16, too.
TEST_CASE("states are clamped in fp16 alone, between tensors where infinities decide") {
  RunConfig run;
  for (const char* call : {"ClampOverflow()", "ClampOverflow(64504)"})
    CHECK(operators_of(lower_one(call, {{2, 4, 8}})).empty());
  run.precision = DType::fp16;
  CHECK(operators_of(lower_one("ClampOverflow(64504)", {{2, 4, 8}}, run, DType::fp16)) ==
        std::vector<std::string>{"aten::clamp"});
  const std::vector<std::string> found{"aten::abs",           "aten::eq",    "aten::any", "aten::scalar_tensor",
                                       "aten::scalar_tensor", "aten::where", "aten::neg", "aten::clamp"};
  CHECK(operators_of(lower_one("ClampOverflow()", {{2, 4, 8}}, run, DType::fp16)) == found);
  CHECK(error_of("ClampOverflow(0)", {{2, 4, 8}}) == "no error");  // nothing is clamped in fp32
}

// What is allocated, and freed by its number: -1 the first. The program of a second layer counts on.
TEST_CASE("sinusoids are made once the weights are there, and go") {
  const Lowered twice = lower_calls({"WhisperSinusoids(10, 4)", "WhisperSinusoids(10, 4)"}, {{2, 10, 4}}, DType::fp32,
                                    RunConfig{}, assumed_gpu());
  const std::vector<std::int64_t> once{16, 8, -1, 8, -2, 80, 80, -4, 80, 80, 160, -7, -6, -3, -5, -8};
  std::vector<std::int64_t> expected = once;
  for (const std::int64_t action : once) expected.push_back(action > 0 ? action : action - 8);
  CHECK(twice.graph.initialization == expected);
  CHECK(error_of("WhisperSinusoids(10, 3)", {{2, 10, 3}}).find("two frequencies or more") != std::string::npos);
}

TEST_CASE("a replaced weight is tied where it had another place, and no weight of the step") {
  for (const bool tied : {false, true}) {
    const Lowered lowered = lower_one(tied ? "ReplacedParameter(6, tied=True)" : "ReplacedParameter(6)", {{4, 8}});
    CHECK(lowered.graph.parameters.empty());
    CHECK(lowered.graph.model_storage.size() == 1);
    CHECK(lowered.graph.tied_shapes.size() == (tied ? 1 : 0));
  }
}

TEST_CASE("before PyTorch 2.0 a mean over named dimensions saves its input") {
  RunConfig old;
  old.pytorch = 113;
  const std::int64_t image_bytes = 4 * 8 * 14 * 14 * 4;
  CHECK(saved_bytes(lower_one("Mean(dim=[2, 3])", {kImage}, old).graph) == image_bytes);
  CHECK(saved_bytes(lower_one("AdaptiveAvgPool2d(1)", {kImage}, old).graph) == image_bytes);
  CHECK(saved_bytes(lower_one("Mean()", {kImage}, old).graph) == 0);
  CHECK(saved_bytes(lower_one("Sum(dim=[2, 3])", {kImage}, old).graph) == 0);
}

TEST_CASE("a multiplication saves an operand only for the other one's gradient") {
  const std::int64_t image_bytes = 4 * 8 * 14 * 14 * 4;
  CHECK(saved_bytes(lower_one("Mul(other=2.0)", {kImage}).graph) == 0);
  CHECK(saved_bytes(lower_one("Mul()", {kImage, kImage}).graph) == 2 * image_bytes);
  CHECK(saved_bytes(lower_one("Add()", {kImage, kImage}).graph) == 0);
}

// c10::result_type of torch.arange(4) and numbers: torch.int64 * 2 is int64, * 2.0 float32, / 2 float32; of torch.bool
// * 2 int64.
TEST_CASE("an integer tensor and a float give float32") {
  const auto type_of = [](const char* call, DType dtype) {
    const Lowered lowered = lower_one(call, {{4}}, {}, dtype);
    return lowered.graph.tensors[static_cast<std::size_t>(lowered.outputs[0])].dtype;
  };
  CHECK(type_of("Mul(other=2)", DType::int64) == DType::int64);
  CHECK(type_of("Mul(other=2.0)", DType::int64) == DType::fp32);
  CHECK(type_of("Sub(other=1.0)", DType::int32) == DType::fp32);
  CHECK(type_of("Div(other=2)", DType::int64) == DType::fp32);
  CHECK(type_of("Mul(other=2)", DType::boolean) == DType::int64);
  CHECK(type_of("Mul(other=2.0)", DType::bf16) == DType::bf16);
}

// The operators that torch.dispatch lists of torch.clamp(x, low, high).backward(), the bounds without a
// gradient: 2.15.0, and 2.4.1 and 2.1.2.
TEST_CASE("a clamp between two tensors halves the gradient where it equals one, and before 2.9 gives it whole") {
  const auto backward_of = [](PyTorchVersion release) {
    RunConfig run;
    run.pytorch = release;
    const std::string text =
        "gpuplan: 1\ninput: {shape: [8]}\nlayers:\n  - x: Linear(8, 8)\n"
        "  - {name: low, op: \"Buffer(shape=[])\"}\n  - {name: high, op: \"Buffer(shape=[])\"}\n"
        "  - {op: \"ClampTensor()\", from: [x, low, high]}\n";
    const Graph graph = build_graph(testing::read_spec(text), make_catalog(), run, assumed_gpu());
    const auto node = std::ranges::find(graph.nodes, std::string_view("ClampBackward0"), &AutogradNode::name);
    REQUIRE(node != graph.nodes.end());
    std::vector<std::string> names;
    for (std::int32_t i = node->ops.begin; i < node->ops.end; ++i) {
      const std::string_view name = name_of(graph.backward_ops[static_cast<std::size_t>(i)].kind);
      if (name.starts_with("aten::")) names.emplace_back(name.substr(6));
    }
    return names;
  };
  CHECK(backward_of(215) == std::vector<std::string>{"lt", "eq", "eq", "logical_or", "logical_and", "lt", "gt",
                                                     "logical_or", "div", "where", "masked_fill_"});
  CHECK(backward_of(204) == std::vector<std::string>{"scalar_tensor", "ge", "le", "logical_and_", "where"});
}

TEST_CASE("views share the storage; reshaping a transposed tensor copies it") {
  const Lowered view = lower_calls({"Transpose(1, 2)", "Transpose(0, 3)"}, {kImage}, DType::fp32, {}, assumed_gpu());
  CHECK(view.graph.forward_ops.empty());
  const Lowered copy = lower_calls({"Transpose(1, 2)", "Flatten()"}, {kImage}, DType::fp32, {}, assumed_gpu());
  REQUIRE(copy.graph.forward_ops.size() == 1);
  CHECK(copy.graph.forward_ops[0].kind == Operator::clone);
  // A dimension of size 1 may go anywhere: the tensor stays contiguous.
  const Lowered free = lower_calls({"Transpose(1, 2)", "Flatten()"}, {{4, 1, 14, 14}}, DType::fp32, {}, assumed_gpu());
  CHECK(free.graph.forward_ops.empty());
}

TEST_CASE("chunks that do not divide are fewer or smaller, as torch.chunk's") {
  const Lowered lowered = lower_one("Chunk(4, dim=1)", {{2, 9, 3}});  // ceil(9 / 4) = 3: three chunks
  CHECK(lowered.outputs.size() == 3);
}

TEST_CASE("a Parameter is named by its entry and has no kernel") {
  const Lowered lowered = lower_one("Parameter(1, 5, 8)", {});
  REQUIRE(lowered.graph.parameters.size() == 1);
  CHECK(lowered.graph.parameters[0].name.empty());  // called as its layer
  CHECK(lowered.graph.forward_ops.empty());
  CHECK(lowered.graph.tensors[static_cast<std::size_t>(lowered.outputs[0])].requires_grad);
}

// Recorded: tests/shadow/layers.h200.torch2.15.tsv. The result is allocated at the input's size, then reduced into.
TEST_CASE("mse_loss returns a scalar on a storage of its input's size") {
  const Lowered lowered = lower_one("MSELoss()", {kImage});
  const Tensor& loss = lowered.graph.tensors[static_cast<std::size_t>(lowered.outputs[0])];
  CHECK(loss.shape.rank() == 0);
  CHECK(lowered.graph.buffers[static_cast<std::size_t>(loss.buffer)].bytes == 25'088);
}

// What a new layer's author forgets is said, not planned.
TEST_CASE("a layer without a lower, and one that sets no result, are refused") {
  const Model model = testing::read_spec(testing::with_layers("  - Flatten()\n"));
  const auto error = [&](void (*lower)(LayerBuilder&)) -> std::string {
    LayerDef def;
    def.name = "Flatten";
    def.lower = lower;
    const std::array<const LayerDef*, 1> catalog{&def};
    try {
      (void)build_graph(model, catalog, RunConfig{}, assumed_gpu());
    } catch (const Error& e) {
      return e.message();
    }
    return "no error";
  };
  CHECK(error(nullptr).find(".lower") != std::string::npos);
  CHECK(error([](LayerBuilder&) {}).find("b.output()") != std::string::npos);
}

}  // namespace
}  // namespace gpuplan
