// KVCache(copies=True): the cache that transformers' models fill in every forward called with use_cache=True.
#include <doctest/doctest.h>

#include "estimator/graph/build.h"
#include "tests/support/lower_calls.h"
#include "tests/support/model_time.h"
#include "tests/support/test_spec.h"

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

// An output without past_key_values (TokenClassifierOutput) lets the cache go when the model's forward returns.
TEST_CASE("a cache that no output has lives until the forward returns") {
  const Graph graph = graph_of("KVCache(copies=True, returned=False)");
  CHECK(graph.kept_with_output.empty());
  CHECK(graph.kept_in_forward.size() == 2);
}

// DynamicLayer.lazy_initialization: both of its empty tensors have the keys' type, which torch.cat widens to.
TEST_CASE("the values of a cache take the type of its keys") {
  RunConfig run;
  run.batch = 4;
  run.autocast = DType::bf16;
  const Model model = read_spec(
      "gpuplan: 1\ninput: {shape: [4, 16, 8]}\nlayers:\n  - v: Linear(8, 8)\n"
      "  - {name: cache, op: \"KVCache(copies=True)\", from: [input, v]}\n"
      "  - {op: Add(), from: [cache.0, cache.1]}\n");
  const Graph graph = build_graph(model, make_catalog(), run, assumed_gpu());
  REQUIRE(graph.kept_with_output.size() == 2);
  for (const TensorId t : graph.kept_with_output) CHECK(graph.tensor(t).dtype == DType::fp32);
}

namespace {

// Seconds of the pass of one token after 1023 others, on a GPU that moves 100 GB/s and waits for nothing else.
double seconds_of_token(Generation::Cache cache) {
  Gpu gpu = assumed_gpu();
  Datasheet sheet;
  sheet.bandwidth_gb_s = 100;
  sheet.teraflops.fill(1);
  gpu.datasheet = sheet;
  TimeModel ideal;
  ideal.bandwidth = 1;
  ideal.kernel_seconds = ideal.host_product = ideal.host_norm = ideal.host_other = 0;
  RunConfig run;
  run.mode = Mode::infer;
  run.batch = 4;
  run.generation = {.part = Generation::Part::decode, .cache = cache, .prompt = 1000, .generate = 25};
  const Model model = read_spec(
      "gpuplan: 1\ninput: {shape: [8, 1, 64]}\nlayers:\n"
      "  - {name: cache, op: KVCache(), from: [input, input]}\n");
  return step_time(model, make_catalog(), run, gpu, HostCopy::none, ideal)->forward_seconds;
}

}  // namespace

// index_copy_ of StaticLayer.update (transformers/cache_utils.py), and vLLM's reshape_and_cache, read the new keys and
// values, 4 * 8 * 64 numbers of 4 bytes each, and write as many. torch.cat reads and writes those of all 1024 tokens.
TEST_CASE("a cache that is written in place moves the new token's keys and values only") {
  const double token = 4 * 8 * 64 * 4;
  CHECK_EQ(seconds_of_token(Generation::Cache::fixed), doctest::Approx(2 * 2 * token / 1e11));
  CHECK_EQ(seconds_of_token(Generation::Cache::paged), doctest::Approx(2 * 2 * token / 1e11));
  CHECK_EQ(seconds_of_token(Generation::Cache::dynamic), doctest::Approx(2 * 2 * 1024 * token / 1e11));
}
