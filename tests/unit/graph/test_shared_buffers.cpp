// A module that is called twice has its buffers once, as its parameters; comparisons of two tensors.
#include <doctest/doctest.h>

#include <algorithm>

#include "estimator/graph/build.h"
#include "layers/catalog.h"
#include "tests/support/test_spec.h"

namespace gpuplan {
namespace {

Graph graph_of(const std::string& layers) {
  RunConfig run;
  run.batch = 2;
  return build_graph(testing::read_spec(testing::with_layers(layers)), make_catalog(), run, assumed_gpu());
}

auto buffers(const Graph& graph) {
  return std::ranges::count_if(graph.model_storage, [&](TensorId t) {
    return graph.buffers[static_cast<std::size_t>(graph.tensor(t).buffer)].category == Category::buffers;
  });
}

// torch.nn.BatchNorm1d registers running_mean, running_var and num_batches_tracked; nn.Sequential(bn, bn).buffers() has
// three tensors.
TEST_CASE("tie: a batch norm that is called again updates the same statistics") {
  const Graph twice = graph_of("  - norm: BatchNorm1d(_)\n  - {name: again, op: BatchNorm1d(_), tie: norm}\n");
  CHECK(buffers(twice) == 3);
  CHECK(twice.parameters.size() == 2);
  CHECK(buffers(graph_of("  - norm: BatchNorm1d(_)\n  - other: BatchNorm1d(_)\n")) == 6);
}

TEST_CASE("tie: a buffer that is read in two calls of a module is one tensor") {
  const Graph graph = graph_of(
      "  - table: \"Buffer(shape=[4], dtype='float32')\"\n"
      "  - {name: again, op: \"Buffer(shape=[4], dtype='float32')\", tie: table}\n"
      "  - {op: Add(), from: [input, again]}\n"
      "  - head: Linear(_, 4)\n");
  CHECK(buffers(graph) == 1);
}

// torch.nn: b.weight = a.weight; c.weight = b.weight.
TEST_CASE("tie: what shares a layer's weights may be named for them, unless it has others of its own") {
  const auto layers = [](const std::string& of_b) {
    return "  - a: Linear(4, 4)\n  - {name: b, op: \"Linear(4, 4" + of_b +
           ")\", tie: a}\n"
           "  - {name: c, op: \"Linear(4, 4)\", tie: b}\n";
  };
  CHECK_EQ(graph_of(layers("")).parameters.size(), 2);
  CHECK_EQ(
      graph_of(
          "  - {name: a, op: \"Linear(4, 4, bias=False)\"}\n  - {name: b, op: \"Linear(4, 4, bias=False)\", tie: a}\n"
          "  - {name: c, op: \"Linear(4, 4, bias=False)\", tie: b}\n")
          .parameters.size(),
      1);
  std::string message;
  try {
    (void)graph_of(
        "  - {name: a, op: \"Linear(4, 4, bias=False)\"}\n  - {name: b, op: \"Linear(4, 4)\", tie: a}\n"
        "  - {name: c, op: \"Linear(4, 4)\", tie: b}\n");
  } catch (const Error& error) {
    message = error.message();
  }
  CHECK_EQ(message, "\"b\" shares weights itself and has others of its own");
}

// torch/Tensor comparisons broadcast and give one byte an element.
TEST_CASE("two tensors are compared with broadcasting") {
  const Graph graph = graph_of(
      "  - row: \"Arange(4)\"\n"
      "  - column: Unsqueeze(1)\n"
      "  - {name: below, op: Lt(), from: [row, column]}\n"
      "  - {name: head, op: \"Linear(_, 4)\", from: input}\n");
  const auto below = std::ranges::find(graph.layers, "below", &Layer::name);
  REQUIRE(below != graph.layers.end());
  CHECK(graph.tensor(below->output).shape == Shape{4, 4});
  CHECK(graph.tensor(below->output).dtype == DType::boolean);
}

}  // namespace
}  // namespace gpuplan
