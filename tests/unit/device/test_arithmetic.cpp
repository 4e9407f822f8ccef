// What architectures compute with, and what is said where PyTorch computes otherwise or not at all.
#include <doctest/doctest.h>

#include "estimator/base/error.h"
#include "estimator/device/arithmetic.h"

using namespace gpuplan;

namespace {

Gpu gpu(int major, int minor) {
  Gpu g;
  g.title = "X";
  g.capability_major = major;
  g.capability_minor = minor;
  return g;
}

RunConfig with(DType precision, std::optional<DType> autocast = {}) {
  RunConfig run;
  run.precision = precision;
  run.autocast = autocast;
  return run;
}

bool refuses(const RunConfig& run, const Gpu& g) {
  try {
    refuse_arithmetic(run, g);
  } catch (const Error& error) {
    // Says what is there.
    CHECK_NE(error.render().find("help: it computes "), std::string::npos);
    return true;
  }
  return false;
}

}  // namespace

TEST_CASE("tensor cores: fp16 from 7.0, integers from 7.5, bf16 and tf32 from 8.0, fp8 from 8.9") {
  using enum Arithmetic;
  CHECK_FALSE(on_tensor_cores(gpu(6, 1), fp16));
  CHECK(on_tensor_cores(gpu(7, 0), fp16));
  CHECK_FALSE(on_tensor_cores(gpu(7, 0), int8));
  CHECK(on_tensor_cores(gpu(7, 5), int8));
  for (const Arithmetic type : {bf16, tf32}) {
    CHECK_FALSE(on_tensor_cores(gpu(7, 5), type));
    CHECK(on_tensor_cores(gpu(8, 0), type));
    CHECK(on_tensor_cores(gpu(8, 7), type));
  }
  CHECK_FALSE(computes(gpu(8, 6), fp8));
  for (const Gpu& g : {gpu(8, 9), gpu(9, 0), gpu(10, 0), gpu(12, 0), gpu(13, 0)}) CHECK(computes(g, fp8));
  // fp64 on tensor cores is the data centre's: A100 and H100, not the RTX cards of 8.6 and 8.9.
  CHECK(on_tensor_cores(gpu(8, 0), fp64));
  CHECK_FALSE(on_tensor_cores(gpu(8, 6), fp64));
  for (int major = 3; major < 13; ++major) CHECK(computes(gpu(major, 0), fp32));
}

TEST_CASE("what a GPU is good at, in words") {
  CHECK_EQ(arithmetic_of(gpu(7, 5)), "fp16, int8 and int4 on tensor cores, fp64 and fp32 on CUDA cores");
  CHECK_EQ(arithmetic_of(gpu(7, 0)), "fp16 on tensor cores, fp64, fp32 and int8 on CUDA cores");
  CHECK_EQ(arithmetic_of(gpu(6, 0)), "fp64, fp32 and fp16, without tensor cores");
}

TEST_CASE("bf16 below 8.0 is emulated, as a whole model's type and under autocast") {
  for (const RunConfig& run : {with(DType::bf16), with(DType::fp32, DType::bf16)}) {
    REQUIRE_EQ(emulated_arithmetic(run, gpu(7, 5)).size(), 1);
    CHECK_EQ(emulated_arithmetic(run, gpu(7, 5)).front(),
             "X has no native bf16: PyTorch emulates bf16 in fp32, without tensor cores; it computes fp16, int8 and "
             "int4 on tensor cores, fp64 and fp32 on CUDA cores");
    CHECK_EQ(emulated_arithmetic(run, gpu(7, 0)).size(), 1);
    CHECK(emulated_arithmetic(run, gpu(8, 0)).empty());
  }
  CHECK(emulated_arithmetic(with(DType::fp16), gpu(7, 0)).empty());
  CHECK(emulated_arithmetic(with(DType::fp32), gpu(7, 0)).empty());
  CHECK_EQ(emulated_arithmetic(with(DType::fp16), gpu(6, 1)).size(), 1);  // 1/64 of the rate of fp32
}

TEST_CASE("tf32 below 8.0 computes in fp32") {
  RunConfig run;
  run.tf32 = true;
  CHECK_EQ(emulated_arithmetic(run, gpu(7, 5)).size(), 1);
  CHECK(emulated_arithmetic(run, gpu(8, 6)).empty());
}

TEST_CASE("fp8 below 8.9 is refused") {
  RunConfig run;
  run.mode = Mode::infer;
  run.weights = WeightFormat::fp8;
  CHECK(refuses(run, gpu(8, 6)));
  CHECK_FALSE(refuses(run, gpu(8, 9)));
  run.weights = WeightFormat::int8;
  CHECK_FALSE(refuses(run, gpu(8, 6)));
}

// torch/amp/autocast_mode.py: "Current CUDA Device does not support bfloat16. Please switch dtype to float16."
TEST_CASE("bf16 autocast below 8.0 is refused before PyTorch 2.3") {
  RunConfig run = with(DType::fp32, DType::bf16);
  for (const auto& [version, refused] : {std::pair{113, true}, {202, true}, {203, false}, {215, false}}) {
    run.pytorch = version;
    CHECK_EQ(refuses(run, gpu(7, 5)), refused);
    CHECK_FALSE(refuses(run, gpu(8, 0)));
  }
  run = with(DType::bf16);
  run.pytorch = 202;
  CHECK_FALSE(refuses(run, gpu(7, 5)));
}
