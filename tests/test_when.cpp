// when: an entry that runs in training or in inference only.
#include <doctest/doctest.h>

#include "estimator/graph/build.h"
#include "estimator/plan.h"
#include "estimator/spec/canonical.h"
#include "tests/lower_calls.h"
#include "tests/test_spec.h"

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
  CHECK_THROWS_WITH_AS(graph_in(Mode::infer, kHead + inner), doctest::Contains("runs in training only"), Error);
  const std::string made = "  - {name: table, op: \"Parameter(1, 8, 6, 6)\", when: infer, from: a}\n";
  CHECK_NOTHROW(graph_in(Mode::train, kHead + made + "  - {op: Add(), from: [a, table]}\n"));  // a itself
}

TEST_CASE("when is train or infer") {
  CHECK(contains(error_of(kHead + "  - {op: ReLU(), when: eval}\n"), "when is train or infer"));
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
  CHECK(operations("KVCache(copies=True)") == operations("KVCache()") + 2);
}
