// Which kernels torch.matmul is. What is expected is what torch.profiler lists of 1.13.1, 2.1.2 and 2.15.0 on the CPU,
// whose choice between mm and bmm is the GPU's (aten/src/ATen/native/LinearAlgebra.cpp, should_fold).
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "estimator/graph/build.h"
#include "layers/catalog.h"
#include "tests/support/test_spec.h"

namespace gpuplan {
namespace {

using testing::read_spec;
using Names = std::vector<std::string>;

struct Run {
  PyTorchVersion pytorch = 215;
  Mode mode = Mode::train;
  std::optional<DType> autocast = {};
};

// Of entries between an input x [8, 40, 64] and the end, without what makes x want a gradient.
Names kernels(const std::string& layers, const Run& of) {
  RunConfig run;
  run.batch = 8;
  run.mode = of.mode;
  run.pytorch = of.pytorch;
  run.autocast = of.autocast;
  const Graph graph = build_graph(read_spec("gpuplan: 1\ninput: {shape: [40, 64]}\nlayers:\n" + layers), make_catalog(),
                                  run, assumed_gpu());
  Names names;
  for (std::int32_t i = 0; i < graph.loss_begin; ++i) {
    const std::string_view name = name_of(graph.forward_ops[static_cast<std::size_t>(i)].kind);
    if (name != "return") names.emplace_back(name.substr(6));  // aten::
  }
  return names;
}

std::string weight(bool frozen, const std::string& shape) {
  return std::string("  - {name: w, op: \"Parameter(") + shape + ")\"" + (frozen ? ", frozen: true" : "") + "}\n";
}

const Names kTall{"clone", "mm"}, kTallBack{"clone", "mm", "clone"}, kBatches{"bmm"};

constexpr Run kTrain{}, kInfer{.pytorch = 215, .mode = Mode::infer, .autocast = {}};
constexpr Run kOld{.pytorch = 113, .mode = Mode::train, .autocast = {}};

}  // namespace

TEST_CASE("transposed rows by a matrix are copied where it says that it requires a gradient, under no_grad, too") {
  const std::string by = "  - {name: rows, op: \"Transpose(0, 1)\", from: input}\n  - {op: \"MatMul()\", from: [rows, ";
  const std::string transposed = "  - t: Transpose(0, 1)\n";
  const std::string part = "  - Slice(0, 0, 48)\n";
  for (const Run& run : {kTrain, kInfer}) {
    CHECK(kernels(weight(false, "96, 64") + transposed + by + "t]}\n", run) == kTall);
    CHECK(kernels(weight(false, "96, 64") + part + transposed + by + "t]}\n", run) == kTall);  // a view of a view
    CHECK(kernels(weight(true, "96, 64") + transposed + by + "t]}\n", run) == kBatches);
    CHECK(kernels(weight(false, "96, 64") + "  - Detach()\n" + transposed + by + "t]}\n", run) == kBatches);
  }
  CHECK(kernels(weight(true, "96, 64") + transposed + by + "t]}\n", kOld) == kTall);
  // What a kernel makes of the weight is no view of it.
  const std::string twice = "  - Mul(other=2.0)\n";
  CHECK(kernels(weight(false, "96, 64") + twice + transposed + by + "t]}\n", kTrain) == Names{"mul", "clone", "mm"});
  CHECK(kernels(weight(false, "96, 64") + twice + transposed + by + "t]}\n", kInfer) == Names{"mul", "bmm"});
}

TEST_CASE("a matrix by a batch is the product of the transpositions where it says that it requires a gradient") {
  const std::string by = "  - {op: \"MatMul()\", from: [w, input]}\n";
  CHECK(kernels(weight(false, "24, 40") + by, kTrain) == kTallBack);
  CHECK(kernels(weight(false, "24, 40") + by, kInfer) == kTallBack);
  CHECK(kernels(weight(true, "24, 40") + by, kTrain) == kBatches);
  CHECK(kernels(weight(true, "24, 40") + by, kInfer) == kBatches);
  CHECK(kernels(weight(true, "24, 40") + by, kOld) == kTallBack);
  // By transposed ones, which then are contiguous rows.
  const std::string back =
      "  - {name: x, op: \"Transpose(1, 2)\", from: input}\n  - {op: \"MatMul()\", from: [w, x]}\n";
  CHECK(kernels(weight(false, "24, 64") + back, kTrain) == Names{"mm", "clone"});
  CHECK(kernels(weight(true, "24, 64") + back, kTrain) == kBatches);
  CHECK(kernels(weight(false, "24, 64") + back, kOld) == kBatches);
}

TEST_CASE("before PyTorch 2.0 a batch of transposed matrices by one stays a batch") {
  const std::string by =
      "  - t: Transpose(0, 1)\n  - {name: x, op: \"Transpose(1, 2)\", from: input}\n"
      "  - {op: \"MatMul()\", from: [x, t]}\n";
  CHECK(kernels(weight(false, "24, 40") + by, kOld) == kBatches);
  CHECK(kernels(weight(false, "24, 40") + by, kTrain) == kTall);
}

}  // namespace gpuplan
