// `construction:` of a spec: what constructors make beside the weights.
#include <doctest/doctest.h>

#include "estimator/graph/build.h"
#include "estimator/plan/plan.h"
#include "estimator/spec/canonical.h"
#include "layers/catalog.h"
#include "tests/support/test_spec.h"

namespace gpuplan {
namespace {

std::string spec(const std::string& construction) {
  return testing::with_layers(
      "  - a: Linear(4, 4)\n"
      "  - b: Linear(4, 4)\n"
      "  - head: Linear(4, 4, bias=False)\n",
      construction);
}

Graph graph_of(const std::string& construction) {
  return build_graph(testing::read_spec(spec(construction)), make_catalog(), RunConfig{}, assumed_gpu());
}

std::int64_t reserved(const std::string& construction) {
  RunConfig run;
  run.mode = Mode::infer;
  return plan(testing::read_spec(spec(construction)), make_catalog(), run).peak.reading.reserved_bytes;
}

constexpr std::int64_t kMiB = 1 << 20;

}  // namespace

TEST_CASE("construction: steps stand between the weights, after those of their entry") {
  const Graph graph = graph_of(
      "construction:\n"
      "  - run: \"+512\"\n"
      "  - {after: a, run: \"+4096 -0\"}\n"
      "  - {after: head, run: -1}\n");
  CHECK(graph.knows_construction);
  CHECK(graph.initialization == std::vector<std::int64_t>{512, 0, 0, 4096, -1, 0, 0, 0, -2});
}

TEST_CASE("construction: a step whose entry is there already follows the step before it") {
  const Graph graph = graph_of("construction: [{after: head, run: \"+4\"}, {after: a, run: \"+8\"}]\n");
  CHECK(graph.initialization == std::vector<std::int64_t>{0, 0, 0, 0, 0, 4, 8});
}

TEST_CASE("construction: an empty one places the weights, and a spec without it leaves them alone") {
  CHECK(graph_of("construction: []\n").initialization == std::vector<std::int64_t>(5, 0));
  CHECK(graph_of("").initialization.empty());
}

// Tensors of 10 MiB and more get a segment of whole 2 MiB of their own, which stays in the cache (c10's allocator).
// cuBLAS's workspace then lies in it, which had a segment of 20 MiB.
TEST_CASE("construction: what was let go leaves its segment in the cache") {
  CHECK(reserved("construction: [{after: a, run: \"+104857600 -0\"}]\n") - reserved("") == 80 * kMiB);
}

// nn.Linear makes a weight of its own before it is given the table's.
TEST_CASE("construction: with it no weight is assumed to be replaced by the one that it is tied to") {
  const auto weights = [](const std::string& construction) {
    const std::string layers =
        "  - a: Linear(4, 4, bias=False)\n"
        "  - {name: b, op: \"SharedEmbedding(4, 4)\", tie: a}\n"
        "  - {name: c, op: \"Linear(4, 4, bias=False)\", from: a}\n";
    const Model model = testing::read_spec(testing::with_layers(layers, construction));
    return build_graph(model, make_catalog(), RunConfig{}, assumed_gpu()).model_storage.size();
  };
  CHECK(weights("construction: []\n") < weights(""));
}

TEST_CASE("construction: the canonical text is read as the same") {
  const std::string text = "construction:\n  - {run: \"+512\"}\n  - {after: a, run: \"+4096 -0 -1\"}\n";
  const std::string canonical = canonical_yaml(testing::read_spec(spec(text)));
  CHECK(testing::contains(canonical, "{after: a, run: \"+4096 -0 -1\"}"));
  CHECK(canonical_yaml(testing::read_spec(canonical)) == canonical);
  CHECK(testing::contains(canonical_yaml(testing::read_spec(spec("construction: []\n"))), "construction: []"));
}

TEST_CASE("construction: what is wrong is told where it stands") {
  using testing::contains, testing::error_of;
  CHECK(contains(error_of(spec("construction: 4\n")), "construction"));
  CHECK(contains(error_of(spec("construction: [{after: a}]\n")), "run"));
  CHECK(contains(error_of(spec("construction: [{run: \"4096\"}]\n")), "\"4096\" is neither +BYTES nor -K"));
  CHECK(contains(error_of(spec("construction: [{run: \"+0\"}]\n")), "neither"));
  CHECK(contains(error_of(spec("construction: [{run: \"+99999999999999999999\"}]\n")), "neither"));
  CHECK(contains(error_of(spec("construction: [{run: \"+4 -0 -0\"}]\n")), "\"-0\" frees what is not there"));
  CHECK(contains(error_of(spec("construction: [{run: \"+1152921504606846976 +1\"}]\n")), "more than 1 EiB"));
  CHECK(contains(error_of(spec("construction: [{run: [4]}]\n")), "run must be a text"));
  CHECK_THROWS_WITH_AS(graph_of("construction: [{after: hed, run: \"+4\"}]\n"), doctest::Contains("\"head\""), Error);
  CHECK_THROWS_WITH_AS(graph_of("construction: [{after: x, run: \"+4\"}]\n"), doctest::Contains("no entry \"x\""),
                       Error);
}

}  // namespace gpuplan
