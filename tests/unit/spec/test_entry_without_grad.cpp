// grad: false, an entry that a model runs under torch.no_grad().
#include <doctest/doctest.h>

#include <algorithm>

#include "estimator/graph/build.h"
#include "estimator/spec/canonical.h"
#include "tests/support/lower_calls.h"
#include "tests/support/test_spec.h"

using namespace gpuplan;
using namespace gpuplan::testing;

namespace {

Graph graph_of(const std::string& layers, std::optional<DType> autocast = std::nullopt) {
  RunConfig run;
  run.batch = 4;
  run.autocast = autocast;
  return build_graph(read_spec("gpuplan: 1\ninput: {shape: [8]}\nlayers:\n" + layers), make_catalog(), run,
                     assumed_gpu());
}

std::vector<std::string> nodes_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const AutogradNode& node : graph.nodes) names.emplace_back(node.name);
  return names;
}

std::ptrdiff_t weight_casts(const Graph& graph) {
  return std::ranges::count_if(graph.forward_ops, [&](const Op& op) {
    return op.kind == Operator::to && graph.tensor(graph.operands[static_cast<std::size_t>(op.reads.begin)]).trained;
  });
}

}  // namespace

TEST_CASE("an entry without grad has no autograd node, and its weights stay trained parameters") {
  const Graph graph = graph_of(
      "  - a: {op: \"Linear(8, 8)\", grad: false}\n"
      "  - b: Linear(8, 8)\n");
  CHECK(std::ranges::count(nodes_of(graph), "AddmmBackward0") == 1);
  CHECK(std::ranges::all_of(graph.parameters, &ParameterTensor::trainable));
}

TEST_CASE("what is read without grad and then with it has the gradient of the second alone") {
  const Graph graph = graph_of(
      "  - a: Linear(8, 8)\n"
      "  - b: {op: Exp(), from: a, grad: false}\n"
      "  - {op: Exp(), from: a}\n");
  CHECK(std::ranges::count(nodes_of(graph), "ExpBackward0") == 1);
}

// at::autocast::cached_cast() asks the weight, not the mode (aten/src/ATen/autocast_mode.cpp).
TEST_CASE("autocast casts a weight once for calls without grad and with it") {
  const std::string layers =
      "  - a: {op: \"Linear(8, 8, bias=False)\", grad: false}\n"
      "  - {op: \"Linear(8, 8, bias=False)\", tie: a, grad: false}\n"
      "  - {op: \"Linear(8, 8, bias=False)\", tie: a}\n";
  CHECK(weight_casts(graph_of(layers, DType::bf16)) == 1);
}

TEST_CASE("a structure without grad is without it throughout, and what follows it is not") {
  const Graph graph = graph_of(
      "  - {layers: [{layers: [\"Linear(8, 8)\"]}, \"Linear(8, 8)\"], grad: false}\n"
      "  - Linear(8, 8)\n");
  CHECK(std::ranges::count(nodes_of(graph), "AddmmBackward0") == 1);
}

TEST_CASE("grad: true is what entries have anyway") {
  const auto canonical = [](const std::string& flag) {
    return canonical_yaml(read_spec("gpuplan: 1\ninput: {shape: [8]}\nlayers:\n  - {op: ReLU()" + flag + "}\n"));
  };
  CHECK(canonical(", grad: true") == canonical(""));
  CHECK(canonical(", grad: false").find("grad: false") != std::string::npos);
}
