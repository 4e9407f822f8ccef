#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "estimator/time/measured_time.h"
#include "estimator/time/product_time.h"
#include "estimator/time/queue.h"
#include "layers/catalog.h"
#include "tests/support/model_time.h"
#include "tests/support/test_spec.h"
#include "tests/support/zoo_models.h"
#include "tests/times/time_cases.h"

namespace gpuplan {
namespace {

// A GPU with round figures: 10 multiprocessors, 1 TFLOP/s in fp32, 100 GB/s, a host link of 10 GB/s.
Gpu round_gpu() {
  Gpu gpu;
  gpu.sm_count = 10;
  gpu.capability_major = 6;
  Datasheet sheet;
  sheet.bandwidth_gb_s = 100;
  sheet.teraflops[static_cast<std::size_t>(Rate::fp32)] = 1;
  sheet.host_link_gb_s = 10;
  gpu.datasheet = sheet;
  return gpu;
}

// Everything at its peak, no launches, no host.
TimeModel ideal() {
  TimeModel m;
  m.on_cuda_cores.fill(1);
  m.fill_on_cuda_cores = 0;
  m.bandwidth = 1;
  m.kernel_seconds = 0;
  m.host_product = m.host_norm = m.host_other = m.host_backward = m.host_parameter = m.host_optimizer_kernel = 0;
  return m;
}

std::string percent(double log) { return std::to_string(std::lround(100 * std::expm1(log))) + " %"; }

}  // namespace

TEST_CASE("a product takes whole waves of whole tiles") {
  TimeModel model = ideal();
  const ProductUnits units{.multiprocessors = 10, .flops = 1e12, .bytes = 1e11, .tensor_cores = false};
  // 256 x 1280 results are 10 tiles of 256 x 128: one full wave, which is the peak.
  CHECK_EQ(product_seconds({1, 256, 1280, 1000}, units, 1, model), doctest::Approx(2.0 * 256 * 1280 * 1000 / 1e12));
  // With that tile only, one column more is a second wave.
  model.on_cuda_cores.fill(1e-6);
  model.on_cuda_cores[0] = 1;
  CHECK_EQ(product_seconds({1, 256, 1281, 63}, units, 1, model), doctest::Approx(2 * 2.0 * 256 * 1280 * 63 / 1e12));
  // Half of the shares, twice the time.
  CHECK_EQ(product_seconds({1, 256, 1280, 63}, units, 0.5, model), doctest::Approx(2 * 2.0 * 256 * 1280 * 63 / 1e12));
}

TEST_CASE("a long contracted dimension is split among idle multiprocessors, whose parts are then added") {
  const ProductUnits units{.multiprocessors = 10, .flops = 1e12, .bytes = 1e11, .tensor_cores = false};
  // One tile of 32 x 32 and 64,000 steps: 64 blocks of 1,000 are seven waves, where 8 of 8,000 are as long as eight; 64
  // partial results are written and read in fp32.
  const double one_block = 2.0 * 32 * 32 * 64'000 * 10 / 1e12;
  CHECK_EQ(product_seconds({1, 32, 32, 64'000}, units, 1, ideal()),
           doctest::Approx(one_block * 7 / 64 + 8.0 * 64 * 1024 / 1e11));
}

TEST_CASE("a convolution's passes are products of the same size") {
  Convolution c;
  c.n = 2, c.c = 8, c.h = c.w = 10, c.k = 16, c.r = c.s = 3, c.p = c.q = 10, c.pad_h = c.pad_w = 1, c.groups = 2;
  for (const auto pass : {ConvolutionPass::forward, ConvolutionPass::backward_data, ConvolutionPass::backward_filter}) {
    c.pass = pass;
    const ProductShape s = implicit_product(c);
    CHECK_EQ(s.batch, 2);
    CHECK_EQ(s.batch * s.m * s.n * s.k, doctest::Approx(static_cast<double>(macs(c))));
  }
}

TEST_CASE("the GPU waits for the host, and the host for the GPU only where it synchronizes") {
  Queue queue;
  CHECK_EQ(queue.launch(1, 5), 1);  // nothing to do until the first launch
  CHECK_EQ(queue.launch(1, 1), 0);
  CHECK_EQ(queue.gpu(), 7);
  CHECK_EQ(queue.host(), 2);
  queue.synchronize();
  CHECK_EQ(queue.host(), 7);
  CHECK_EQ(queue.launch(2, 1), 2);
}

TEST_CASE("a step is the sum of its rows, each by the figures of the GPU") {
  // Linear(1000, 1000) without a bias, 500 rows: forward 1 GFLOP, of 1 TFLOP/s at least 1 ms.
  const Model model =
      testing::read_spec("gpuplan: 1\ninput: {shape: [1000]}\nlayers:\n  - Linear(1000, 1000, bias=False)\n");
  RunConfig run;
  run.batch = 500;
  run.mode = Mode::infer;
  const Gpu gpu = round_gpu();
  const auto time = step_time(model, make_catalog(), run, gpu, HostCopy::pinned, ideal());
  REQUIRE(time);
  // 2 MB over the link at 8 GB/s.
  CHECK_EQ(time->copy_seconds, doctest::Approx(500 * 1000 * 4 / 8e9));
  // The best tiles of 500 x 1000: 64 x 64 are 8 x 16 = 128 blocks, 13 waves of 10; 32 x 32: 16 x 32 = 512, 52 waves.
  const double least = 2.0 * 1000 * 10 / 1e12 * std::min({13.0 * 64 * 64, 52.0 * 32 * 32, 26.0 * 64 * 32});
  CHECK_GE(time->forward_seconds, 0.001);
  CHECK_LE(time->forward_seconds, doctest::Approx(least));
  CHECK_EQ(time->seconds(), doctest::Approx(time->copy_seconds + time->forward_seconds));
  CHECK_EQ(time->bound, Bound::compute);
  CHECK_EQ(time->samples, 500);
  CHECK_EQ(time->tokens, 0);
  CHECK_EQ(time->peak_flops, doctest::Approx(1e12));
  CHECK_EQ(time->mfu(), doctest::Approx(1e9 / time->seconds() / 1e12));
  REQUIRE_EQ(time->layers.size(), 1);
  CHECK_EQ(time->layers[0].seconds(), doctest::Approx(time->forward_seconds));

  // What is copied while the step before runs costs nothing where it is shorter.
  const auto overlapped = step_time(model, make_catalog(), run, gpu, HostCopy::overlapped, ideal());
  CHECK_EQ(overlapped->seconds(), doctest::Approx(time->forward_seconds));
  // A slow host decides: 1 s for the product's call.
  TimeModel slow = ideal();
  slow.host_product = 1;
  const auto waiting = step_time(model, make_catalog(), run, gpu, HostCopy::none, slow);
  CHECK_EQ(waiting->seconds(), doctest::Approx(1 + time->forward_seconds));
  CHECK_EQ(waiting->bound, Bound::launch);
}

// cuDNN has bf16 from Ampere on; before, PyTorch multiplies the columns of one sample at a time.
TEST_CASE("a bf16 convolution on an older GPU moves columns and launches two kernels a sample") {
  const auto forward_seconds = [](const std::string& layer, const TimeModel& model) {
    const Model spec = testing::read_spec("gpuplan: 1\ninput: {shape: [64, 32, 32]}\nlayers:\n  - " + layer + "\n");
    RunConfig run;
    run.batch = 10;
    run.mode = Mode::infer;
    run.precision = DType::bf16;
    const auto time = step_time(spec, make_catalog(), run, round_gpu(), HostCopy::none, model);
    REQUIRE(time);
    return time->forward_seconds;
  };
  const std::string tap = "Conv2d(64, 64, 1, bias=False)", taps = "Conv2d(64, 64, 3, padding=1, bias=False)";
  // [1024, k] [k, 64] a sample, at most a quarter more than at the peak: 32 tiles of 64 x 32 are 4 waves of 10. The
  // columns are 1024 x 576 of 2 bytes, written and read.
  const double product = 10 * 2.0 * 1024 * 64 * 64 / 1e12, columns = 10 * 2 * 1024 * 576 * 2.0 / 100e9;
  CHECK_GE(forward_seconds(tap, ideal()), product);
  CHECK_LE(forward_seconds(tap, ideal()), 1.25 * product + 1e-12);
  CHECK_GE(forward_seconds(taps, ideal()), 9 * product + columns);
  CHECK_LE(forward_seconds(taps, ideal()), 1.25 * 9 * product + columns + 1e-12);
  TimeModel slow = ideal();
  slow.kernel_seconds = 1;
  CHECK_EQ(forward_seconds(tap, slow), doctest::Approx(10 + forward_seconds(tap, ideal())));
  CHECK_EQ(forward_seconds(taps, slow), doctest::Approx(20 + forward_seconds(taps, ideal())));
}

TEST_CASE("micro-batches, tokens and unknown GPUs") {
  RunConfig run;
  run.batch = 8;
  run.optimizer.kind = OptimizerKind::sgd;
  const Gpu& a100 = measured_gpu("a100-40gb");
  const Model gpt2 = zoo_model("gpt2_s256");
  const auto once = step_time(gpt2, make_catalog(), run, a100);
  run.micro_batches = 4;
  const auto parts = step_time(gpt2, make_catalog(), run, a100);
  CHECK_EQ(once->tokens, 8 * 256);
  CHECK_EQ(parts->tokens, 8 * 256);
  CHECK_EQ(parts->samples, 8);
  CHECK_GT(parts->forward_seconds, once->forward_seconds);  // smaller products, four times the launches
  CHECK_EQ(parts->optimizer_seconds, doctest::Approx(once->optimizer_seconds).epsilon(0.2));
  Gpu unknown = assumed_gpu();
  unknown.datasheet.reset();
  CHECK_FALSE(step_time(gpt2, make_catalog(), run, unknown));
  run.micro_batches = 1;
  run.offload_optimizer = true;
  CHECK_FALSE(step_time(gpt2, make_catalog(), run, a100));
}

TEST_CASE("what was measured on a GPU comes before the model") {
  Gpu gpu = round_gpu();
  const TimeModel model = ideal();
  const Gemm gemm{.batch = 1, .m = 256, .n = 1280, .k = 1000, .bias_epilogue = false, .dtype = DType::fp32};
  const Work work{2 * 256 * 1280 * 1000, 0, (256 * 1000 + 1000 * 1280 + 256 * 1280) * 4, DType::fp32, false, true};
  const double modelled = operation_time(gemm, work, make_processor(gpu, model)).seconds;
  Measurements m;
  m.launch_ns = 0;
  m.gemm = {{ProductType::fp32, 256, 1280, 1000, std::llround(3e9 * modelled)}};
  m.copy = {{1'000'000, 40'000}, {10'000'000, 250'000}};
  m.to_device_pinned = {{1'000'000, 500'000}};
  gpu.measured = m;
  const Processor on = make_processor(gpu, model);
  CHECK_EQ(operation_time(gemm, work, on).seconds, doctest::Approx(3 * modelled));
  // A million bytes read and as many written in 40 us are 50 GB/s; between the sizes it is linear in time.
  CHECK_EQ(achieved_bandwidth(2'000'000, on), doctest::Approx(2e6 / 40e-6));
  CHECK_EQ(achieved_bandwidth(11'000'000, on), doctest::Approx(11e6 / (40e-6 + 0.5 * 210e-6)));
  CHECK_EQ(host_bandwidth(4'000'000, true, on), doctest::Approx(2e9));
  CHECK_EQ(host_bandwidth(4'000'000, false, on), doctest::Approx(2.4e9));  // not measured: the model's
}

// 1,095 convolutions and 640 products of DeepBench that the constants were fitted on; `gpuplan_time_fit` fits them
// again without each GPU and finds about the same errors on the one left out.
TEST_CASE("kernels that were measured on P100, GTX 1080 Ti and V100") {
  std::map<std::string, std::vector<double>> by_gpu;
  std::vector<double> products, convolutions;
  for (const MeasuredKernel& k : measured_kernels()) {
    const double ratio = predicted_seconds(k, TimeModel{}) / k.seconds;
    by_gpu[k.gpu].push_back(ratio);
    (std::holds_alternative<Gemm>(k.what) ? products : convolutions).push_back(ratio);
  }
  CHECK_EQ(products.size(), 640);
  for (const auto& of_gpu : by_gpu) {
    CAPTURE(of_gpu.first);
    CHECK_LE(log_errors(of_gpu.second).median, std::log(1.25));
  }
  MESSAGE("matrix products: median " << percent(log_errors(products).median)
                                     << ", convolutions: " << percent(log_errors(convolutions).median));
  CHECK_LE(log_errors(products).median, std::log(1.15));
  CHECK_LE(log_errors(convolutions).median, std::log(1.3));
}

// Seven published pairs that the two shares come from, so close that nothing is fitted between them.
TEST_CASE("products whose rows are no multiples of 16 bytes reach the share that was measured") {
  for (const MeasuredPair& pair : unaligned_pairs()) {
    const double predicted = predicted_share(pair, TimeModel{});
    CAPTURE(pair.gpu);
    CAPTURE(pair.unaligned.k);
    CHECK_GE(predicted / pair.share, 0.8);
    CHECK_LE(predicted / pair.share, 1.25);
  }
}

// None of these was fitted on either: large batches, and three architectures.
TEST_CASE("steps of ResNet-50 that NVIDIA published of A100, V100 and T4") {
  std::vector<double> all, large;
  std::map<std::string, std::array<std::vector<double>, 2>> order;  // of one mode, precision and batch
  for (const MeasuredStep& s : nvidia_steps()) {
    const double predicted = predicted_seconds_of_nvidia(s, TimeModel{});
    all.push_back(predicted / s.seconds);
    if (s.run.batch < 32) continue;
    large.push_back(all.back());
    const std::string alike = std::to_string(static_cast<int>(s.run.mode)) + " " + std::to_string(s.run.batch) + " " +
                              (s.run.autocast ? "amp" : "fp32");
    order[alike][0].push_back(predicted);
    order[alike][1].push_back(s.seconds);
  }
  CHECK_EQ(all.size(), 42);
  CHECK_EQ(large.size(), 22);
  MESSAGE("all: median " << percent(log_errors(all).median) << ", bias " << percent(log_errors(all).bias)
                         << "; batch 32 and more: median " << percent(log_errors(large).median) << ", bias "
                         << percent(log_errors(large).bias) << ", within a factor of 1.6: "
                         << std::lround(100 * log_errors(all).within_1_6) << " % of all");
  CHECK_LE(log_errors(all).median, std::log(1.25));
  CHECK_LE(log_errors(large).median, std::log(1.15));
  CHECK_GE(log_errors(all).within_1_6, 0.95);
  for (const auto& [alike, pair] : order) {
    // V100s of 16 and of 32 GB are equal here and 3 % apart there.
    if (pair[0].size() != 2 || pair[0][0] == pair[0][1]) continue;
    CHECK_EQ(kendall_tau(pair[0], pair[1]), 1);
  }
}

// None of these was fitted on. One author measured all four cards with the same software, and the batch is large enough
// for no card to wait for its host, so that their order is the cards'.
TEST_CASE("steps of Torch7 that were measured on four cards") {
  std::vector<double> all;
  std::map<std::string, std::array<std::vector<double>, 2>> order;  // predicted, measured
  std::map<std::string, std::vector<double>> by_gpu;
  for (const MeasuredStep& s : torch7_steps()) {
    const double predicted = predicted_seconds_of_torch7(s, TimeModel{});
    all.push_back(predicted / s.seconds);
    by_gpu[s.gpu].push_back(all.back());
    order[s.model][0].push_back(predicted);
    order[s.model][1].push_back(s.seconds);
  }
  CHECK_EQ(all.size(), 28);
  const LogErrors e = log_errors(all);
  for (const auto& of_gpu : by_gpu)
    MESSAGE(of_gpu.first << ": median " << percent(log_errors(of_gpu.second).median) << ", bias "
                         << percent(log_errors(of_gpu.second).bias));
  double tau = 0;
  for (const auto& [model, pair] : order) tau += kendall_tau(pair[0], pair[1]);
  tau /= static_cast<double>(order.size());
  MESSAGE("Torch7: median " << percent(e.median) << ", bias " << percent(e.bias) << ", within a factor of 1.6: "
                            << std::lround(100 * e.within_1_6) << " %, Kendall's tau " << tau);
  CHECK_LE(e.median, std::log(1.25));
  CHECK_GE(tau, 0.9);
}

// The targets: median 25 %, 90 % within a factor of 1.6.
TEST_CASE("steps of torchvision's models that were measured on six GPUs") {
  std::map<std::string, std::vector<double>> by_gpu;
  std::vector<double> all;
  for (const MeasuredStep& s : measured_steps()) {
    all.push_back(predicted_seconds(s, TimeModel{}) / s.seconds);
    by_gpu[s.gpu].push_back(all.back());
  }
  for (const auto& of_gpu : by_gpu) {
    const LogErrors e = log_errors(of_gpu.second);
    MESSAGE(of_gpu.first << ": median " << percent(e.median) << ", bias " << percent(e.bias)
                         << ", within a factor of 1.6: " << std::lround(100 * e.within_1_6) << " %");
    CHECK_LE(e.median, std::log(1.25));
  }
  const LogErrors e = log_errors(all);
  CHECK_EQ(all.size(), 584);
  CHECK_LE(e.median, std::log(1.20));
  CHECK_GE(e.within_1_6, 0.90);
}

}  // namespace gpuplan
