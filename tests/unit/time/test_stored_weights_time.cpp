// Steps whose weights are stored in int8, fp8 or int4: what products read, and which peak they are measured by.
#include <doctest/doctest.h>

#include "estimator/time/operation_time.h"
#include "layers/catalog.h"
#include "tests/support/model_time.h"
#include "tests/support/test_spec.h"
#include "tools/options/run_options.h"

namespace gpuplan {
namespace {

// An Ada GPU with round figures, times so many, and a model of it in which everything runs at its peak.
Gpu round_gpu(double times = 1) {
  Gpu gpu;
  gpu.sm_count = 8;
  gpu.capability_major = 8, gpu.capability_minor = 9;
  Datasheet sheet;
  sheet.bandwidth_gb_s = 100;
  const auto set = [&](Rate rate, double teraflops) {
    sheet.teraflops[static_cast<std::size_t>(rate)] = times * teraflops;
  };
  set(Rate::fp32, 0.5);
  set(Rate::bf16_tensor, 1), set(Rate::fp16_tensor, 1);
  set(Rate::int8, 4), set(Rate::fp8, 2);
  gpu.datasheet = sheet;
  return gpu;
}

TimeModel ideal() {
  TimeModel m;
  m.on_cuda_cores.fill(1), m.on_tensor_cores.fill(1);
  m.fill_on_cuda_cores = m.fill_on_tensor_cores = 0;
  m.bandwidth = 1;
  m.kernel_seconds = 0;
  m.host_product = m.host_norm = m.host_other = 0;
  return m;
}

constexpr std::int64_t kSide = 4096;

const std::string kOne = "gpuplan: 1\ninput: {shape: [4096]}\nlayers:\n  - Linear(4096, 4096, bias=False)\n";
const std::string kTwo = kOne + "  - Linear(4096, 4096, bias=False)\n";

std::optional<StepTime> time_of(std::int64_t rows, WeightFormat weights, const Gpu& gpu = round_gpu(1),
                                const std::string& spec = kOne) {
  const Model model = testing::read_spec(spec);
  RunConfig run;
  run.mode = Mode::infer;
  run.precision = DType::bf16;
  run.batch = rows;
  run.weights = weights;
  return step_time(model, make_catalog(), run, gpu, HostCopy::none, ideal());
}

}  // namespace

TEST_CASE("products of weights stored in int8 and fp8 run at the peak of that type") {
  // 4096 x 4096 results are 512 tiles of 256 x 128, 64 whole waves of 8: the peak.
  const double operations = 2.0 * kSide * kSide * kSide;
  CHECK_EQ(time_of(kSide, WeightFormat::as_computed)->forward_seconds, doctest::Approx(operations / 1e12));
  CHECK_EQ(time_of(kSide, WeightFormat::fp8)->forward_seconds, doctest::Approx(operations / 2e12));
  // The head of a model is computed with as it is: the stored weight is that of the layer before.
  const auto int8 = time_of(kSide, WeightFormat::int8, round_gpu(1), kTwo);
  CHECK(std::ranges::any_of(int8->roofs, [](const Roof& r) { return r.name == "int8"; }));
  CHECK(int8->forward_seconds > operations / 1e12 + operations / 4e12);  // beside kernels that quantize and scale
  // int4 is turned into the type that is computed in.
  CHECK_EQ(time_of(kSide, WeightFormat::int4)->forward_seconds, doctest::Approx(operations / 1e12));
}

TEST_CASE("a product of one row reads its weight as it is stored") {
  const double vectors = 2 * 2 * kSide, weight = kSide * kSide;  // bytes; a weight of one byte an element
  // Tiles of many rows are idle but for one: with so fast units that matters nothing.
  const auto seconds = [](WeightFormat f) { return time_of(1, f, round_gpu(1000))->forward_seconds; };
  CHECK_EQ(seconds(WeightFormat::as_computed), doctest::Approx((vectors + 2 * weight) / 1e11));
  CHECK_EQ(seconds(WeightFormat::fp8), doctest::Approx((vectors + weight) / 1e11));
  CHECK_EQ(seconds(WeightFormat::int4), doctest::Approx((vectors + weight / 2) / 1e11));
}

TEST_CASE("without a rate of the type there is no time, and a reason") {
  RunConfig run;
  run.mode = Mode::infer;
  run.weights = WeightFormat::int8;
  Gpu gpu = round_gpu();
  CHECK_EQ(why_no_time(run, gpu, HostCopy::none), "");
  gpu.datasheet->teraflops[static_cast<std::size_t>(Rate::int8)].reset();
  CHECK_EQ(why_no_time(run, gpu, HostCopy::none), "the GPU file has no tensor core peak for int8");
  CHECK_FALSE(time_of(1, WeightFormat::int8, gpu));
  // DP4A on CUDA cores is none: V100's 62.7 TOPS are of that.
  const Gpu v100 = *gpu_called("v100-sxm2-16gb");
  CHECK(v100.datasheet->rate(Rate::int8));
  CHECK_FALSE(stored_rate(WeightFormat::int8, v100));
  CHECK_EQ(stored_rate(WeightFormat::int8, *gpu_called("t4")), 130e12);
  CHECK_EQ(stored_rate(WeightFormat::fp8, *gpu_called("h100")), 1979e12);
}

}  // namespace gpuplan
