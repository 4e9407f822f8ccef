// The embedding gradient's scratch against PyTorch: every row of tests/shadow/embedding_backward.*.tsv
// (tests/recorders/embedding_backward.py wrote them).
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "estimator/operators/reduction.h"

namespace gpuplan {
namespace {

Gpu gpu_with(int major, int minor, int sm_count) {
  Gpu gpu;
  gpu.capability_major = major;
  gpu.capability_minor = minor;
  gpu.sm_count = sm_count;
  return gpu;
}

/// A program as the recordings write it: "+bytes -bytes" in order, with the result in its place.
std::string as_recorded(const ScratchProgram& program, std::int64_t result_bytes) {
  std::vector<std::int64_t> allocated;
  std::string text;
  for (const std::int64_t action : program) {
    if (!text.empty()) text += ' ';
    if (action == kResultAllocation) {
      text += "+" + std::to_string(result_bytes);
    } else if (action > 0) {
      allocated.push_back(action);
      text += "+" + std::to_string(action);
    } else {
      text += "-" + std::to_string(allocated[static_cast<std::size_t>(-action - 1)]);
    }
  }
  return text;
}

void check_recording(const std::string& file, const Gpu& gpu, PyTorchVersion pytorch) {
  std::ifstream in(std::filesystem::path(GPUPLAN_SOURCE_DIR) / "tests" / "shadow" / file);
  REQUIRE(in);
  std::string line;
  std::getline(in, line);  // the header
  int rows = 0;
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    std::int64_t indices = 0, vocabulary = 0, features = 0;
    std::string dtype, allocations;
    fields >> indices >> vocabulary >> features >> dtype >> std::ws;
    std::getline(fields, allocations);
    const DType t = *dtype_from_name(dtype);
    const ScratchProgram program = embedding_backward_program(indices, vocabulary, features, t, gpu, pytorch);
    CAPTURE(line);
    CHECK(as_recorded(program, vocabulary * features * size_of(t)) == allocations);
    ++rows;
  }
  CHECK(rows > 250);
}

}  // namespace

TEST_CASE("embedding gradient of PyTorch 2.15 on an H200") {
  check_recording("embedding_backward.2.15.h200.tsv", gpu_with(9, 0, 132), 215);
}
TEST_CASE("embedding gradient of PyTorch 2.15 on an A100") {
  check_recording("embedding_backward.2.15.a100.tsv", gpu_with(8, 0, 108), 215);
}
TEST_CASE("embedding gradient of PyTorch 2.15 on an RTX 4090") {
  check_recording("embedding_backward.2.15.rtx4090.tsv", gpu_with(8, 9, 128), 215);
}
TEST_CASE("embedding gradient of PyTorch 2.15 on a T4") {
  check_recording("embedding_backward.2.15.t4.tsv", gpu_with(7, 5, 40), 215);
}
TEST_CASE("embedding gradient of PyTorch 2.8 on an H200") {
  check_recording("embedding_backward.2.8.h200.tsv", gpu_with(9, 0, 132), 208);
}
TEST_CASE("embedding gradient of PyTorch 2.8 on an A100") {
  check_recording("embedding_backward.2.8.a100.tsv", gpu_with(8, 0, 108), 208);
}

TEST_CASE("up to 3072 indices an embedding gradient needs nothing but itself") {
  const auto program = [](std::int64_t indices) {
    return embedding_backward_program(indices, 50257, 768, DType::fp32, gpu_with(9, 0, 132), 215);
  };
  CHECK(program(3072) == ScratchProgram{kResultAllocation});
  CHECK(program(3073).size() > 1);
}

TEST_CASE("the largest buffer of an embedding gradient is a partial sum of every ten rows and every distinct row") {
  // 16384 / 10 + min(16384, 50257) = 18022 sums of 768 fp32, for fp16 gradients too.
  for (const DType t : {DType::fp32, DType::fp16}) {
    const auto program = embedding_backward_program(16384, 50257, 768, t, gpu_with(9, 0, 132), 215);
    CHECK(*std::max_element(program.begin(), program.end()) == 18022 * 768 * 4);
  }
}

}  // namespace gpuplan
