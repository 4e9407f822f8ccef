// Which products read a 4-bit weight as it is packed: bitsandbytes 0.50.2's own answers
// (backends/cuda/ops.py, _gemm_4bit_use_custom_cuda and its caller, asked by tests/recorders/packed_products.py).
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "estimator/aten/stored_linear.h"

namespace gpuplan {

TEST_CASE("4-bit products choose the kernel that bitsandbytes chooses") {
  std::ifstream in(std::string(GPUPLAN_SOURCE_DIR) + "/tests/recorded/packed_products.tsv");
  REQUIRE(in);
  std::int64_t rows = 0, packed_rows = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("#") || line.starts_with("major")) continue;
    std::istringstream fields(line);
    Gpu gpu = assumed_gpu();
    std::string type;
    std::int64_t m = 0, n = 0, k = 0, packed = 0;
    fields >> gpu.capability_major >> gpu.capability_minor >> gpu.sm_count >> type >> m >> n >> k >> packed;
    REQUIRE_MESSAGE(fields, line);
    const DType dtype = type == "fp32" ? DType::fp32 : type == "fp16" ? DType::fp16 : DType::bf16;
    CHECK_MESSAGE(aten::multiplies_packed(gpu, dtype, m, n, k) == (packed != 0), line);
    ++rows;
    packed_rows += packed;
  }
  CHECK(rows > 2000);
  CHECK(packed_rows > 500);
}

}  // namespace gpuplan
