// KVCache(copies=True): the cache that transformers' models fill in every forward called with use_cache=True.
#include <doctest/doctest.h>

#include "estimator/graph/build.h"
#include "tests/lower_calls.h"
#include "tests/test_spec.h"

using namespace gpuplan;
using namespace gpuplan::testing;

namespace {

Graph graph_of(const std::string& call) {
  RunConfig run;
  run.batch = 4;
  return build_graph(read_spec("gpuplan: 1\ninput: {shape: [4, 16, 8]}\nlayers:\n  - q: Linear(8, 8)\n"
                               "  - {name: cache, op: \"" +
                               call +
                               "\", from: [q, input]}\n"
                               "  - {op: Add(), from: [cache.0, cache.1]}\n"),
                     make_catalog(), run, assumed_gpu());
}

}  // namespace

// transformers/cache_utils.py, DynamicLayer.update: torch.cat of nothing and the new keys, and the same of the values.
TEST_CASE("a cache that is filled in training copies keys and values, and the output keeps them") {
  const Graph plain = graph_of("KVCache()"), copied = graph_of("KVCache(copies=True)");
  CHECK(copied.forward_ops.size() == plain.forward_ops.size() + 3);  // and what holds both till then
  CHECK(plain.kept_with_output.empty());
  CHECK(copied.kept_with_output.size() == 2);
  CHECK(copied.nodes.size() == plain.nodes.size() + 1);  // of the keys: the values want no gradient
}
