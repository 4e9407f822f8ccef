// `order:` of a spec: where weights lie in memory, and the order of Module.parameters().
#include <doctest/doctest.h>

#include "estimator/graph/build.h"
#include "estimator/graph/parameter_order.h"
#include "estimator/spec/canonical.h"
#include "layers/catalog.h"
#include "tests/support/test_spec.h"

namespace gpuplan {
namespace {

using Names = std::vector<std::string>;

Graph graph_of(const Model& model) { return build_graph(model, make_catalog(), RunConfig{}, assumed_gpu()); }

Names storages(const Graph& graph) {
  Names names;
  for (const TensorId t : graph.model_storage) {
    const LayerId layer = graph.buffers[static_cast<std::size_t>(graph.tensor(t).buffer)].layer;
    names.emplace_back(graph.layers[static_cast<std::size_t>(layer)].name);
  }
  return names;
}

Names parameters(const Graph& graph) {
  Names names;
  for (const ParameterTensor& p : graph.parameters)
    names.emplace_back(graph.layers[static_cast<std::size_t>(p.layer)].name);
  return names;
}

// Four layers of one weight each.
std::string spec(const std::string& order) {
  return testing::with_layers(
      "  - a.0: Linear(4, 4, bias=False)\n"
      "  - b.0: Linear(4, 4, bias=False)\n"
      "  - a.1: Linear(4, 4, bias=False)\n"
      "  - head: Linear(4, 4, bias=False)\n",
      "order: [" + order + "]\n");
}

TEST_CASE("order: entries are constructed and registered in it, the others after them") {
  const Model model = testing::read_spec(spec("head, a.1"));
  const Graph graph = graph_of(model);
  CHECK(storages(graph) == Names{"head", "a.1", "a.0", "b.0"});
  CHECK(parameters(graph) == Names{"head", "a.1", "a.0", "b.0"});
}

// As a module's __init__ that fills two Python lists in turn and then makes an nn.ModuleList of each.
TEST_CASE("order: a list of modules is registered in it, its items are constructed where they run") {
  const Model model = testing::read_spec(spec("b, a"));
  const Graph graph = graph_of(model);
  CHECK(storages(graph) == Names{"a.0", "b.0", "a.1", "head"});
  CHECK(parameters(graph) == Names{"b.0", "a.0", "a.1", "head"});
}

TEST_CASE("order: entries and lists of modules together") {
  const Model model = testing::read_spec(spec("head, b, a"));
  const Graph graph = graph_of(model);
  CHECK(storages(graph) == Names{"head", "a.0", "b.0", "a.1"});
  CHECK(parameters(graph) == Names{"head", "b.0", "a.0", "a.1"});
}

// As torchvision's ResNets: _make_layer constructs `downsample` and hands it to the block, which assigns it last.
TEST_CASE("order: what is constructed first may be registered last") {
  const std::string text = testing::with_layers(
      "  - a: Linear(4, 4, bias=False)\n"
      "  - b: Linear(4, 4, bias=False)\n",
      "order: {made: [b, a]}\n");
  const Graph graph = graph_of(testing::read_spec(text));
  CHECK(storages(graph) == Names{"b", "a"});
  CHECK(parameters(graph) == Names{"a", "b"});
}

TEST_CASE("order: made and registered are two lists") {
  const Model model =
      testing::read_spec(testing::with_layers("  - a: Linear(4, 4, bias=False)\n"
                                              "  - b: Linear(4, 4, bias=False)\n"
                                              "  - c: Linear(4, 4, bias=False)\n",
                                              "order: {made: [c], registered: [b, c, a]}\n"));
  for (const Graph& graph : {graph_of(model), graph_of(testing::read_spec(canonical_yaml(model)))}) {
    CHECK(storages(graph) == Names{"c", "a", "b"});
    CHECK(parameters(graph) == Names{"b", "c", "a"});
  }
  CHECK(testing::contains(testing::error_of(testing::with_layers("  - a: Linear(4, 4)\n", "order: {make: [a]}\n")),
                          "made"));
}

// torch/nn/modules/module.py, _apply: of each child first, then of what a module owns, parameters before buffers.
TEST_CASE("Module.to() takes submodules before what a module owns itself") {
  const std::string text = testing::with_layers(
      "  - outer:\n"
      "      layers:\n"
      "        - table: Parameter(4)\n"
      "        - {op: \"Add()\", from: [input, table]}\n"
      "        - fc: Linear(4, 4)\n"
      "        - norm: BatchNorm1d(4)\n"
      "  - head: Linear(4, 4, bias=False)\n",
      "");
  RunConfig run;
  run.batch = 2;
  const Graph graph = build_graph(testing::read_spec(text), make_catalog(), run, assumed_gpu());
  CHECK(parameters(graph) == Names{"outer.table", "outer.fc", "outer.fc", "outer.norm", "outer.norm", "head"});
  Names applied;
  for (const TensorId t : in_applied_order(graph)) {
    const LayerId layer = graph.buffers[static_cast<std::size_t>(graph.tensor(t).buffer)].layer;
    applied.emplace_back(graph.layers[static_cast<std::size_t>(layer)].name);
  }
  CHECK(applied == Names{"outer.fc", "outer.fc", "outer.norm", "outer.norm", "outer.norm", "outer.norm", "outer.norm",
                         "outer.table", "head"});
}

}  // namespace
}  // namespace gpuplan
