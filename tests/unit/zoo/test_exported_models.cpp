// What specs of tools/python/gpuplan need of the grammar: blocks with several results, the batch as a size, weights
// that are inputs, module names with hyphens.
#include <doctest/doctest.h>

#include "estimator/graph/build.h"
#include "estimator/plan/plan.h"
#include "tests/support/lower_calls.h"
#include "tests/support/test_spec.h"

using namespace gpuplan;
using namespace gpuplan::testing;

namespace {

Graph graph_of(const std::string& text, std::int64_t batch = 4) {
  RunConfig run;
  run.batch = batch;
  return build_graph(read_spec(text), make_catalog(), run, assumed_gpu());
}

Shape output_of(const Graph& graph) { return graph.tensors[static_cast<std::size_t>(graph.output)].shape; }

const std::string kTwoResults =
    "gpuplan: 1\n"
    "input: {shape: [8]}\n"
    "blocks:\n"
    "  Halves:\n"
    "    layers:\n"
    "      - left: Linear(8, 3)\n"
    "      - {name: right, op: \"Linear(8, 5)\", from: input}\n"
    "      - {op: Return(), from: [left, right]}\n"
    "layers:\n"
    "  - halves: {block: Halves}\n";

}  // namespace

TEST_CASE("a block that ends in Return has several results") {
  CHECK(output_of(graph_of(kTwoResults)) == Shape{4, 3});
  CHECK(output_of(graph_of(kTwoResults + "  - {op: Identity(), from: halves.1}\n")) == Shape{4, 5});
  CHECK(output_of(graph_of(kTwoResults + "  - {op: Cat(dim=1), from: [halves.0, halves.1]}\n")) == Shape{4, 8});
  CHECK(contains(error_of(kTwoResults + "  - {op: Identity(), from: halfs.1}\n"), "halfs.1"));
  CHECK_THROWS_AS(graph_of(kTwoResults + "  - {op: Identity(), from: halves.2}\n"), Error);
}

TEST_CASE("_ in the sizes of Expand and Zeros is the batch") {
  const std::string head = "gpuplan: 1\ninput: {shape: [3, 8]}\nlayers:\n";
  const std::string token = "  - token: Parameter(1, 1, 8)\n  - Expand(_, -1, -1)\n";
  CHECK(output_of(graph_of(head + token)) == Shape{4, 1, 8});
  CHECK(output_of(graph_of(head + token, 7)) == Shape{7, 1, 8});
  CHECK(output_of(graph_of(head + "  - Zeros(_, 2)\n", 7)) == Shape{7, 2});
}

TEST_CASE("a convolution takes weights that the model computes as inputs") {
  const std::string text =
      "gpuplan: 1\ninput: {shape: [3, 8, 8]}\nlayers:\n"
      "  - weight: Parameter(16, 3, 3, 3)\n"
      "  - scaled: Mul(other=2.0)\n"
      "  - {op: \"Conv2d(3, 16, 3)\", from: [input, scaled]}\n";
  const Graph graph = graph_of(text);
  CHECK(output_of(graph) == Shape{4, 16, 6, 6});
  REQUIRE(graph.parameters.size() == 1);  // no weight of the convolution's own
  CHECK_THROWS_AS(graph_of("gpuplan: 1\ninput: {shape: [3, 8, 8]}\nlayers:\n"
                           "  - weight: Parameter(16, 3, 1, 1)\n"
                           "  - {op: \"Conv2d(3, 16, 3)\", from: [input, weight]}\n"),
                  Error);
}

TEST_CASE("modules may have hyphens in their names") {
  const Model model = read_spec(with_layers("  - block1-0: ReLU()\n  - {op: Add(), from: [block1-0, input]}\n"));
  CHECK(model.layers.front().name == "block1-0");
  CHECK(contains(error_of(with_layers("  - -x: ReLU()\n")), "cannot be a layer's name"));
}

// The output object names the output itself, and what the model was given.
TEST_CASE("a returned state that has a name already is held once") {
  const std::string head = "gpuplan: 1\ninput: {shape: [8]}\nlayers:\n  - fc: Linear(8, 10)\n";
  RunConfig run;
  run.batch = 4;
  const auto peak = [&](const std::string& text) {
    return plan(read_spec(text), make_catalog(), run, nullptr).peak.device_bytes;
  };
  CHECK(peak(head + "  - ReturnedState()\n") == peak(head));
}
