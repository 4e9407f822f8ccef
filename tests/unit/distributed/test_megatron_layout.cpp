#include "estimator/distributed/megatron_layout.h"

#include <doctest/doctest.h>

namespace gpuplan {
namespace {

// Parameters of these shapes, in the order of the model.
Graph graph_of(const std::vector<Shape>& shapes) {
  Graph graph;
  for (const Shape& shape : shapes) {
    Tensor& t = graph.tensors.emplace_back();
    t.shape = shape;
    t.dtype = DType::bf16;
    ParameterTensor& p = graph.parameters.emplace_back();
    p.tensor = static_cast<TensorId>(graph.tensors.size()) - 1;
    p.name = "weight";
    p.trainable = true;
  }
  return graph;
}

Strategy strategy_of(std::int64_t ranks, std::int64_t rank, MegatronSettings settings) {
  Strategy s;
  s.data = DataParallel::megatron;
  s.gpus = ranks;
  s.rank = rank;
  s.megatron = settings;
  return s;
}

// param_and_grad_buffer.py: from the last parameter on, each at a multiple of 64, the end at one of lcm(ranks, 128).
TEST_CASE("a buffer begins with the last parameter and is padded so that ranks share it") {
  const Graph graph = graph_of({{10, 10}, {7}, {20, 10}});
  const MegatronLayout shared = megatron_layout(graph, strategy_of(3, 0, {.distributed_optimizer = true}));
  REQUIRE_EQ(shared.placed.size(), 3);
  CHECK_EQ(shared.placed[0].parameter, 2);
  CHECK_EQ(shared.placed[1].begin, 256);                                  // 200 up to a multiple of 64
  CHECK_EQ(shared.placed[2].begin, 320);                                  // 263 up to one
  CHECK_EQ(shared.elements, 768);                                         // 420 up to a multiple of 384
  CHECK_EQ(megatron_layout(graph, strategy_of(3, 0, {})).elements, 307);  // 100 + 7 + 200, without padding
}

TEST_CASE("with overlap a bucket ends behind the parameter that fills it, and each is shared") {
  const Graph graph = graph_of({{10, 10}, {7}, {20, 10}});
  const MegatronSettings settings{.distributed_optimizer = true, .overlaps_reductions = true, .bucket_elements = 150};
  const MegatronLayout layout = megatron_layout(graph, strategy_of(2, 0, settings));
  REQUIRE_EQ(layout.buckets.size(), 2);
  CHECK_EQ(layout.buckets[0].end, 256);  // 200 up to a multiple of 128
  CHECK_EQ(layout.buckets[1].begin, 256);
  CHECK_EQ(layout.elements, 512);  // 256 + 64 + 100 up to a multiple of 128
}

// distrib_optimizer.py: a rank has its part of each bucket of whatever parameters lie there; vectors do not decay.
TEST_CASE("a rank's main parameters are what lies in its part, those with weight decay first") {
  const Graph graph = graph_of({{10, 10}, {7}, {20, 10}});
  const std::vector<MegatronPart> first = megatron_parts(graph, strategy_of(2, 0, {.distributed_optimizer = true}));
  REQUIRE_EQ(first.size(), 1);  // of 512 elements the first 256
  CHECK_EQ(first[0].elements, 200);
  const std::vector<MegatronPart> second = megatron_parts(graph, strategy_of(2, 1, {.distributed_optimizer = true}));
  REQUIRE_EQ(second.size(), 2);
  CHECK_EQ(second[0].parameter, 0);
  CHECK_EQ(second[0].elements, 100);
  CHECK_EQ(second[1].parameter, 1);
  CHECK_FALSE(second[1].decays);
  const std::vector<MegatronPart> whole = megatron_parts(graph, strategy_of(2, 1, {}));
  REQUIRE_EQ(whole.size(), 3);
  CHECK_EQ(whole[0].parameter, 0);
  CHECK_EQ(whole[1].parameter, 2);
  CHECK_EQ(whole[2].elements, 7);
}

}  // namespace
}  // namespace gpuplan
