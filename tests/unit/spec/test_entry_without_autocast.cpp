// autocast: false, an entry that a model runs within torch.autocast(enabled=False).
#include <doctest/doctest.h>

#include "estimator/graph/build.h"
#include "estimator/spec/canonical.h"
#include "tests/support/lower_calls.h"
#include "tests/support/test_spec.h"

using namespace gpuplan;
using namespace gpuplan::testing;

namespace {

std::vector<DType> types_of_layers(const std::string& layers, std::optional<DType> autocast) {
  RunConfig run;
  run.batch = 4;
  run.autocast = autocast;
  const std::string head = "gpuplan: 1\ninput: {shape: [8]}\nlayers:\n";
  const Graph graph = build_graph(read_spec(head + layers), make_catalog(), run, assumed_gpu());
  std::vector<DType> types;
  for (const Layer& layer : graph.layers)
    if (layer.module && layer.output != kNone) types.push_back(graph.tensor(layer.output).dtype);
  return types;
}

}  // namespace

TEST_CASE("an entry without autocast computes in the type of what it is given") {
  const std::string layers =
      "  - a: Linear(8, 8)\n"
      "  - widen: To(fp32)\n"
      "  - b: {op: \"Linear(8, 8)\", autocast: false}\n"
      "  - c: Linear(8, 8)\n";
  const auto fp32 = DType::fp32, fp16 = DType::fp16;
  CHECK(types_of_layers(layers, fp16) == std::vector{fp16, fp32, fp32, fp16});
  CHECK(types_of_layers(layers, std::nullopt) == std::vector{fp32, fp32, fp32, fp32});
}

TEST_CASE("a structure without autocast is without it throughout, and what follows it is not") {
  const std::string layers =
      "  - {layers: [{layers: [\"Linear(8, 8)\"]}, \"Linear(8, 8)\"], autocast: false}\n"
      "  - Linear(8, 8)\n";
  CHECK(types_of_layers(layers, DType::bf16) == std::vector{DType::fp32, DType::fp32, DType::bf16});
}

TEST_CASE("autocast: true is what entries have anyway") {
  const auto canonical = [](const std::string& flag) {
    return canonical_yaml(read_spec("gpuplan: 1\ninput: {shape: [8]}\nlayers:\n  - {op: ReLU()" + flag + "}\n"));
  };
  CHECK(canonical(", autocast: true") == canonical(""));
  CHECK(canonical(", autocast: false").find("autocast: false") != std::string::npos);
}
