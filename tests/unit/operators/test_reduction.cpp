// Reduction scratch against PyTorch 2.15: every row of tests/shadow/reductions.*.tsv
// (tests/recorders/reductions.py wrote them). PyTorch 2.8 answers the same in every row of the H200 file.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "estimator/operators/reduction.h"

namespace gpuplan {
namespace {

Gpu gpu_with(int sm_count, int max_threads_per_sm) {
  Gpu gpu;
  gpu.sm_count = sm_count;
  gpu.max_threads_per_sm = max_threads_per_sm;
  return gpu;
}

std::vector<std::int64_t> integers(const std::string& text) {
  std::vector<std::int64_t> out;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, ',');) out.push_back(std::stoll(word));
  return out;
}

/// A program as the recordings write it: "+bytes -bytes" in order, "-" for nothing.
std::string as_recorded(const ScratchProgram& program) {
  std::vector<std::int64_t> allocated;
  std::string text;
  for (const std::int64_t action : program) {
    if (action > 0) allocated.push_back(action);
    if (!text.empty()) text += ' ';
    text += action > 0 ? "+" + std::to_string(action)
                       : "-" + std::to_string(allocated[static_cast<std::size_t>(-action - 1)]);
  }
  return text.empty() ? "-" : text;
}

void check_recording(const std::string& file, const Gpu& gpu) {
  std::ifstream in(std::filesystem::path(GPUPLAN_SOURCE_DIR) / "tests" / "shadow" / file);
  REQUIRE(in);
  std::string line;
  std::getline(in, line);  // the header
  int rows = 0;
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    std::string op, sizes, dims, dtype, allocations;
    for (std::string* field : {&op, &sizes, &dims, &dtype, &allocations}) std::getline(fields, *field, '\t');
    unsigned reduced = 0;
    for (const std::int64_t d : integers(dims)) reduced |= 1u << d;
    const DType t = *dtype_from_name(dtype);
    const ReductionKind kind = op == "sum" ? ReductionKind::sum : ReductionKind::mean;
    CAPTURE(line);
    CHECK(as_recorded(reduction_program(Shape(integers(sizes)), reduced, t, t, gpu, kind)) == allocations);
    ++rows;
  }
  CHECK(rows > 500);
}

}  // namespace

TEST_CASE("reduction scratch equals PyTorch's on an H200") {
  check_recording("reductions.h200.tsv", gpu_with(132, 2048));
}
TEST_CASE("reduction scratch equals PyTorch's on an A100") {
  check_recording("reductions.a100.tsv", gpu_with(108, 2048));
}
TEST_CASE("reduction scratch equals PyTorch's on an RTX 4090") {
  check_recording("reductions.rtx4090.tsv", gpu_with(128, 1536));
}
TEST_CASE("reduction scratch equals PyTorch's on a T4") { check_recording("reductions.t4.tsv", gpu_with(40, 1024)); }

TEST_CASE("a bias gradient over many rows needs one partial sum per block, lane and output") {
  // [4096, 3072] fp32 over dim 0 on 132 SMs of 2048 threads. Four outputs a thread: 128 threads a block, 32 wide,
  // 4 high; 3072 / 4 / 32 = 24 columns; 132 * 16 blocks / 24 = 88 > 4096 / 4 / 16 = 64 blocks per output.
  // 4 B * 3072 * 64 * 32 * 4 = 100663296; 24 semaphores of 4 B.
  const auto scratch = reduction_scratch({4096, 3072}, 0b01, DType::fp32, DType::fp32, gpu_with(132, 2048));
  CHECK(scratch == std::vector<std::int64_t>{100663296, 96});
}

TEST_CASE("few rows, or outputs enough to fill the GPU, need no scratch") {
  CHECK(reduction_scratch({64, 3072}, 0b01, DType::fp32, DType::fp32, gpu_with(132, 2048)).empty());
  CHECK(reduction_scratch({4096, 1000, 256}, 0b001, DType::fp32, DType::fp32, gpu_with(40, 1024)).empty());
}

TEST_CASE("an input of more than 2 GiB is summed in parts, half types with a buffer of accumulators") {
  // 64 * 1024 * 50257 * 2 B = 6.6 GB; no part needs blocks to share an output, but 50257 accumulators of 4 B stay.
  CHECK(reduction_program({64, 1024, 50257}, 0b011, DType::bf16, DType::bf16, gpu_with(132, 2048)) ==
        ScratchProgram{201028, -1});
}

}  // namespace gpuplan
