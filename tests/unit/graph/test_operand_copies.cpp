// Kernels that read a copy of what they are given.
#include <doctest/doctest.h>

#include "estimator/graph/build.h"
#include "estimator/plan/plan.h"
#include "tests/support/lower_calls.h"
#include "tests/support/test_spec.h"

using namespace gpuplan;
using namespace gpuplan::testing;

namespace {

std::int64_t peak_of_inference(const std::string& pool) {
  RunConfig run;
  run.batch = 6;
  run.mode = Mode::infer;
  const std::string text =
      "gpuplan: 1\ninput: {shape: [64, 64, 24]}\nlayers:\n  - Mul(other=2)\n  - Split([8, 16], dim=3)\n"
      "  - Permute(0, 3, 1, 2)\n  - " +
      pool + "\n";
  return plan(read_spec(text), make_catalog(), run, nullptr).tensor_peak.bytes;
}

DType type_of_sum(const std::string& operands) {
  RunConfig run;
  run.batch = 4;
  run.autocast = DType::bf16;
  const std::string text =
      "gpuplan: 1\ninput: {shape: [8]}\nlayers:\n  - a: Linear(8, 8)\n  - {op: Addcmul(), from: " + operands + "}\n";
  const Graph graph = build_graph(read_spec(text), make_catalog(), run, assumed_gpu());
  return graph.tensor(graph.output).dtype;
}

}  // namespace

// PyTorch 2.15 under gpuplan shadow, y of [6, 64, 64, 24]: y[..., :8].permute(0, 3, 1, 2) is pooled with allocations of
// 196608 B (result), 393216 (indices) and 786432 (the copy); x and y take 2359296 each.
TEST_CASE("pools copy a part of a tensor before they read it") {
  CHECK(peak_of_inference("MaxPool2d(2)") == 2 * 2'359'296 + 196'608 + 393'216 + 786'432);
  CHECK(peak_of_inference("AvgPool2d(2)") == 2 * 2'359'296 + 196'608 + 786'432);
}

// aten/src/ATen/autocast_mode.h, AT_FORALL_PROMOTE: addcmul.
TEST_CASE("addcmul computes in the widest type of its operands under autocast") {
  CHECK(type_of_sum("[a, a, a]") == DType::bf16);
  CHECK(type_of_sum("[a, a, input]") == DType::fp32);
  CHECK(type_of_sum("[input, a, a]") == DType::fp32);
}
