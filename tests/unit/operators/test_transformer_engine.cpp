#include "estimator/operators/transformer_engine.h"

#include <doctest/doctest.h>

#include <stdexcept>

namespace gpuplan::transformer_engine {
namespace {

Gpu gpu(int major, int minor, int multiprocessors) {
  Gpu gpu;
  gpu.capability_major = major;
  gpu.capability_minor = minor;
  gpu.sm_count = multiprocessors;
  return gpu;
}

// What Transformer Engine 2.20.2 asked for under `gpuplan shadow`.
TEST_CASE("norms have a workspace for each block of threads") {
  const Gpu h200 = gpu(9, 0, 132), a100 = gpu(8, 0, 108), l40s = gpu(8, 9, 142);
  CHECK_EQ(rms_norm_workspace(4096, 8192, h200), 1);
  CHECK_EQ(rms_norm_workspace(4096, 12288, h200), 3168);
  CHECK_EQ(rms_norm_workspace(64, 18432, a100), 2048);
  CHECK_EQ(rms_norm_backward_workspace(1024, 768, h200), 1'622'016);
  CHECK_EQ(rms_norm_backward_workspace(4098, 768, h200), 1'216'512);
  CHECK_EQ(rms_norm_backward_workspace(130, 5120, h200), 2'667'600);
  CHECK_EQ(rms_norm_backward_workspace(4096, 5120, a100), 3'324'240);
  CHECK_EQ(rms_norm_backward_workspace(4096, 2048, a100), 5'308'416);
  CHECK_EQ(rms_norm_backward_workspace(4096, 640, l40s), 1'090'560);
  CHECK_EQ(rms_norm_backward_workspace(16384, 18432, h200), 5'831'472);
  CHECK_THROWS_AS(rms_norm_backward_workspace(4096, 2048, gpu(10, 0, 148)), std::logic_error);
}

TEST_CASE("attention's backward sums in fp32") {
  const Gpu h200 = gpu(9, 0, 132), a100 = gpu(8, 0, 108);
  const AttentionSizes grouped{.batch = 1, .tokens = 1024, .heads = 16, .groups = 8, .size = 64};
  const AttentionSizes whole{.batch = 3, .tokens = 77, .heads = 8, .groups = 8, .size = 64};
  CHECK_EQ(attention_workspace(h200), 256);
  CHECK_EQ(attention_backward_workspace(grouped, h200), 8'454'400);
  CHECK_EQ(attention_backward_workspace(grouped, a100), 12'648'576);
  CHECK_EQ(attention_backward_workspace(whole, h200), 480'736);
  CHECK_EQ(attention_backward_workspace(whole, a100), 972'128);
  // A ring's turns: all queries with half of the keys, and half of the queries with all of the keys.
  CHECK_EQ(attention_backward_workspace({.tokens = 512, .heads = 16, .groups = 8, .size = 48, .keys = 256}, h200),
           2'392'320);
  CHECK_EQ(attention_backward_workspace({.tokens = 256, .heads = 16, .groups = 8, .size = 48, .keys = 512}, h200),
           2'375'936);
  CHECK_EQ(widest_head(a100), 128);
}

}  // namespace
}  // namespace gpuplan::transformer_engine
