// when: an entry that runs in training or in inference only.
#include <doctest/doctest.h>

#include "estimator/graph/build.h"
#include "estimator/plan/plan.h"
#include "estimator/spec/canonical.h"
#include "tests/support/lower_calls.h"
#include "tests/support/test_spec.h"

using namespace gpuplan;
using namespace gpuplan::testing;

namespace {

RunConfig run_in(Mode mode) {
  RunConfig run;
  run.batch = 4;
  run.mode = mode;
  return run;
}

Graph graph_in(Mode mode, const std::string& text) {
  return build_graph(read_spec(text), make_catalog(), run_in(mode), assumed_gpu());
}

const std::string kHead = "gpuplan: 1\ninput: {shape: [3, 8, 8]}\nlayers:\n  - a: Conv2d(3, 8, 3)\n";
const std::string kTail = "  - {name: b, op: \"Conv2d(8, 4, 3)\", from: a}\n  - Flatten()\n  - fc: Linear(_, 4)\n";
const std::string kAux = "  - {name: aux, op: \"Conv2d(8, 100, 3)\", when: train}\n";

}  // namespace

TEST_CASE("an entry of training is not run in inference, but its weights are there") {
  const Graph infer = graph_in(Mode::infer, kHead + kAux + kTail);
  CHECK(infer.parameters.size() == 8);
  const Graph without = graph_in(Mode::infer, kHead + kTail);
  CHECK(infer.forward_ops.size() == without.forward_ops.size());
  const Graph train = graph_in(Mode::train, kHead + kAux + kTail);
  CHECK(train.forward_ops.size() > graph_in(Mode::train, kHead + kTail).forward_ops.size());
  CHECK(train.nodes.size() == graph_in(Mode::train, kHead + "  - aux: Conv2d(8, 100, 3)\n" + kTail).nodes.size());
}

// 8*100*3*3 and 100 numbers of fp32, each tensor charged by 512 bytes: 57 + 1 of them.
TEST_CASE("the weights of an entry of training take memory in inference") {
  const auto after_model = [](const std::string& text) {
    return plan(read_spec(text), make_catalog(), run_in(Mode::infer), nullptr).tensor_peak.after_model_bytes;
  };
  CHECK(after_model(kHead + kAux + kTail) == after_model(kHead + kTail) + 58 * 512);
}

// `x = a(x)`, `if self.training: x = t(x)`, `y = c(b(x))`: in inference x is still a's result while c runs, 4 samples
// of 4096 numbers of four bytes beside c's own.
TEST_CASE("what an entry of the other mode would keep is what it was given") {
  const auto peak = [](const std::string& keep) {
    const std::string text =
        "gpuplan: 1\ninput: {shape: [8]}\nlayers:\n  - a: Linear(8, 4096)\n"
        "  - {name: t, op: \"Linear(4096, 4096)\", when: train" +
        keep +
        "}\n"
        "  - b: Linear(4096, 8)\n  - c: Linear(8, 4096)\n";
    return plan(read_spec(text), make_catalog(), run_in(Mode::infer), nullptr).peak.reading.requested_bytes;
  };
  CHECK(peak(", keep: true") == peak("") + 4 * 4096 * 4);
}

TEST_CASE("an entry of the other mode hands on what it was given") {
  const std::string rest = "  - Flatten()\n  - Linear(_, 4)\n";
  const std::string in_place = "  - {op: ReLU(inplace=True), when: infer}\n";
  CHECK(graph_in(Mode::train, kHead + in_place + rest).forward_ops.size() ==
        graph_in(Mode::train, kHead + rest).forward_ops.size());
  CHECK(graph_in(Mode::infer, kHead + in_place + rest).forward_ops.size() ==
        graph_in(Mode::infer, kHead + "  - ReLU(inplace=True)\n" + rest).forward_ops.size());
}

TEST_CASE("what ran in the other mode only cannot be used") {
  const std::string inner =
      "  - {residual: {body: [{name: deep, op: \"Conv2d(8, 8, 1)\"}]}, when: train}\n"
      "  - {op: ReLU(), from: deep}\n";
  CHECK_NOTHROW(graph_in(Mode::train, kHead + inner));
  CHECK_THROWS_WITH_AS(graph_in(Mode::infer, kHead + inner), doctest::Contains("runs only in training"), Error);
  const std::string made = "  - {name: table, op: \"Parameter(1, 8, 6, 6)\", when: infer, from: a}\n";
  CHECK_NOTHROW(graph_in(Mode::train, kHead + made + "  - {op: Add(), from: [a, table]}\n"));  // a itself
}

// The chain's weights have the sizes that training gives them: a head of 8*3*3 features and one of 16 channels.
TEST_CASE("entries of the other mode see each other's results") {
  const std::string chain =
      "  - {op: \"MaxPool2d(2)\", when: train}\n"
      "  - {op: Flatten(), when: train}\n"
      "  - {name: aux, op: \"Linear(_, 10)\", when: train}\n"
      "  - {name: halves, op: \"Chunk(2, dim=1)\", when: train}\n"
      "  - {name: last, op: \"Linear(_, 3)\", from: halves.1, when: train}\n";
  const Graph infer = graph_in(Mode::infer, kHead + chain + kTail);
  const Graph train = graph_in(Mode::train, kHead + chain + kTail);
  const auto weights = [](const Graph& graph) {
    std::vector<Shape> shapes;
    for (const ParameterTensor& p : graph.parameters)
      shapes.push_back(graph.tensors[static_cast<std::size_t>(p.tensor)].shape);
    return shapes;
  };
  CHECK(weights(infer) == weights(train));
  CHECK(weights(infer)[2] == Shape{10, 72});
  CHECK(weights(infer)[4] == Shape{3, 5});
  CHECK(infer.forward_ops.size() == graph_in(Mode::infer, kHead + kTail).forward_ops.size());
}

TEST_CASE("in the mode that does not run it every result of an entry is its first input") {
  const std::string parts = "  - {name: parts, op: \"Chunk(2, dim=1)\", when: train}\n";
  const std::string sum = "  - {op: Add(), from: [parts.0, parts.1]}\n";
  const auto output = [&](Mode mode) {
    const Graph graph = graph_in(mode, kHead + parts + sum);
    return graph.tensors[static_cast<std::size_t>(graph.output)].shape;
  };
  CHECK(output(Mode::infer) == Shape{4, 8, 6, 6});
  CHECK(output(Mode::train) == Shape{4, 4, 6, 6});
  CHECK_THROWS_AS(graph_in(Mode::infer, kHead + parts + "  - {op: Identity(), from: parts.2}\n"), Error);
}

TEST_CASE("a constant of one mode is not there in the other") {
  const std::string constant = "  - {name: table, op: \"Constant(1, 8, 6, 6)\", when: infer, from: a}\n";
  const auto after_model = [&](Mode mode, const std::string& text) {
    return plan(read_spec(text), make_catalog(), run_in(mode), nullptr).tensor_peak.after_model_bytes;
  };
  const std::string rest = "  - {op: Add(), from: [a, table]}\n  - Flatten()\n  - Linear(_, 4)\n";
  const std::string without = "  - {op: Add(), from: [a, a]}\n  - Flatten()\n  - Linear(_, 4)\n";
  CHECK(after_model(Mode::train, kHead + constant + rest) == after_model(Mode::train, kHead + without));
}

TEST_CASE("items of a sequence may be of one mode") {
  const std::string items =
      "  - features:\n      layers:\n        - {op: \"Conv2d(8, 6, 1)\", when: train}\n"
      "        - {op: \"Conv2d(6, 8, 1)\", when: train}\n        - ReLU()\n";
  CHECK(graph_in(Mode::infer, kHead + items).parameters.size() == 6);
  CHECK(graph_in(Mode::infer, kHead + items).forward_ops.size() ==
        graph_in(Mode::infer, kHead + "  - features:\n      layers:\n        - ReLU()\n").forward_ops.size());
}

TEST_CASE("when must be train or infer") {
  CHECK(contains(error_of(kHead + "  - {op: ReLU(), when: eval}\n"), "when must be train or infer"));
  CHECK(contains(error_of(kHead + "  - {op: ReLU(), when: train, when: infer}\n"), "when"));
  const Model model = read_spec(kHead + kAux + kTail);
  CHECK(model.layers[1].when == Mode::train);
  CHECK(read_spec(canonical_yaml(model)).layers[1].when == Mode::train);
}

TEST_CASE("a cache that is filled in training copies keys and values") {
  const std::string head = "gpuplan: 1\ninput: {shape: [4, 16, 8]}\nlayers:\n  - q: Linear(8, 8)\n";
  const std::string tail = "  - {op: Add(), from: [cache.0, cache.1]}\n";
  const auto operations = [&](const std::string& call) {
    return graph_in(Mode::train, head + "  - {name: cache, op: \"" + call + "\", from: [q, input]}\n" + tail)
        .forward_ops.size();
  };
  CHECK(operations("KVCache(copies=True)") == operations("KVCache()") + 3);  // and what holds them till then
}
