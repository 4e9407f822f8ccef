// gpuplan calibrate on a device whose clock is arithmetic: what it measures, leaves out and writes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/device/find_gpu.h"
#include "estimator/device/read_gpu.h"
#include "estimator/device/write_gpu.h"
#include "validate/calibration/calibration.h"
#include "validate/calibration/convolution_shape.h"
#include "validate/calibration/sizes.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20, kGiB = std::int64_t{1} << 30;
constexpr double kLaunch = 2e-6, kFlops = 100e12, kBytes = 2e12, kLink = 25e9;  // seconds, and a second

// Memory without anything behind it, and a clock that each operation advances by its launch and its work.
class ClockDevice final : public Device {
 public:
  explicit ClockDevice(std::int64_t memory = 16 * kGiB) : memory_(memory), segments_(memory) {}

  bool stands_still = false;
  int fails_at = -1, kernels = 0, missing = 0;
  std::set<std::string> names;
  double before_second_kind = 0;
  std::int64_t used() const { return segments_.used_bytes(); }

  std::uint64_t allocate(std::int64_t bytes) override { return segments_.allocate(bytes); }
  void release(std::uint64_t address, std::int64_t bytes) override { segments_.release(address, bytes); }
  std::uint64_t reserve(std::int64_t) override { return 0; }
  bool map(std::uint64_t, std::int64_t) override { return false; }
  void unmap(std::uint64_t, std::int64_t) override {}
  void release_all() override {}

  std::string refusal(const Kernel&) const override { return ""; }
  void run(const Kernel& kernel) override {
    if (kernels++ == fails_at) throw Error("the kernel failed");
    names.emplace(name_of(kernel.op));
    if (names.size() == 1) before_second_kind = seconds_;
    for (const KernelTensor& t : kernel.reads) missing += t.data == nullptr ? 1 : 0;
    seconds_ += kLaunch + work(*kernel.what);
    // The first run of a kind is slow, as one is that loads its kernel.
    if (seen_.insert(kernel.writes.empty() ? nullptr : kernel.writes[0].data).second) seconds_ += 1e-3;
  }
  void update(const OptimizerConfig&, std::int64_t, std::span<const ParameterUpdate>) override {}
  void clip_gradients(std::span<const KernelTensor>) override {}
  void fill_bytes(void*, std::int64_t, unsigned char) override {}
  void copy_to_device(void*, const void*, std::int64_t bytes) override { seconds_ += 1e-5 + bytes_of(bytes) / kLink; }
  void copy_to_host(void*, const void*, std::int64_t bytes) override { seconds_ += 1e-5 + bytes_of(bytes) / kLink; }
  void* allocate_pinned(std::int64_t bytes) override { return std::malloc(static_cast<std::size_t>(bytes)); }
  void release_pinned(void* memory) override { std::free(memory); }
  void synchronize() override {}
  DeviceMemory memory() override { return {memory_ - 300 * kMiB - segments_.used_bytes(), memory_}; }
  DeviceDescription description() const override {
    DeviceDescription d;
    d.name = "NVIDIA Imaginary X1";
    d.compute_major = 8;
    d.compute_minor = 6;
    d.sm_count = 84;
    d.max_threads_per_sm = 1536;
    d.l2_cache_bytes = 6 * kMiB;
    return d;
  }
  int mark() override {
    marks_.push_back(seconds_);
    return static_cast<int>(marks_.size()) - 1;
  }
  double milliseconds(int from, int to) override {
    if (stands_still) return 0;
    return 1e3 * (marks_.at(static_cast<std::size_t>(to)) - marks_.at(static_cast<std::size_t>(from)));
  }
  void forget_marks() override { marks_.clear(); }

 private:
  static double bytes_of(std::int64_t bytes) { return static_cast<double>(bytes); }
  static double work(const Primitive& what) {
    if (const auto* gemm = std::get_if<Gemm>(&what)) return 2.0 * static_cast<double>(cost(*gemm).macs) / kFlops;
    if (const auto* c = std::get_if<Convolution>(&what)) return 2.0 * static_cast<double>(macs(*c)) / kFlops;
    if (const auto* copy = std::get_if<Copy>(&what)) return bytes_of(4 * copy->elements) / kBytes;
    return 0;
  }

  std::int64_t memory_;
  ArithmeticSegments segments_;
  double seconds_ = 0;
  std::vector<double> marks_;
  std::set<const void*> seen_;
};

Calibration calibrated(ClockDevice& device, CalibrationOptions options = {.quick = true}) {
  return calibrate(device, describe_gpu(device, {}), options);
}

// What the clock adds for so much work, in whole nanoseconds.
std::int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

Gpu with_date(Gpu gpu) {
  gpu.measured.value().date = "2026-11-21";
  gpu.measured->with = "gpuplan 0.1.0, a \"driver\"";
  return gpu;
}

std::string message_of(const std::string& text) {
  const Source source{"x1.yaml", text};
  try {
    read_gpu(source);
  } catch (const Error& error) {
    return std::to_string(error.line()) + ":" + std::to_string(error.column()) + ": " + error.message();
  }
  return "";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("a calibration is the medians of the device's clock") {
  ClockDevice device;
  const Calibration c = calibrated(device);
  const Measurements& m = *c.gpu.measured;
  CHECK(m.launch_ns == nanoseconds(kLaunch));
  CHECK(device.before_second_kind > 0.5);  // seconds of products, since clocks are low at first
  for (const TimedGemm& g : m.gemm) CHECK(std::abs(g.nanoseconds - nanoseconds(kLaunch + flops(g) / kFlops)) <= 1);
  for (const TimedConvolution& t : m.convolution)
    CHECK(std::abs(t.nanoseconds - nanoseconds(kLaunch + flops(t) / kFlops)) <= 1);
  for (const TimedBytes& t : m.copy)
    CHECK(std::abs(t.nanoseconds - nanoseconds(kLaunch + static_cast<double>(t.bytes) / kBytes)) <= 1);
  for (const auto* table : {&m.to_device_pageable, &m.to_device_pinned, &m.to_host_pageable, &m.to_host_pinned}) {
    CHECK(table->size() == 4);  // 4 KiB to 16 MiB, 16 times as many each
    for (const TimedBytes& t : *table)
      CHECK(std::abs(t.nanoseconds - nanoseconds(1e-5 + static_cast<double>(t.bytes) / kLink)) <= 1);
  }
  CHECK(device.names == std::set<std::string>{"aten::add_", "aten::clone", "aten::convolution",
                                              "aten::convolution_backward", "aten::mm"});
  CHECK(device.missing == 0);
  CHECK(device.used() == 0);
  CHECK(c.gpu.context_bytes == 300 * kMiB);
  CHECK(c.too_long == 0);
  CHECK(c.without_room == 0);
  CHECK(c.measured == static_cast<int>(1 + m.gemm.size() + m.convolution.size() + m.copy.size() + 16));
}

TEST_CASE("what the GPU multiplies is measured, in the layouts that PyTorch has it in") {
  ClockDevice device;
  const Calibration c = calibrated(device);
  std::map<ProductType, int> products, last;
  for (const TimedGemm& g : c.gpu.measured->gemm) ++products[g.type];
  for (const TimedConvolution& t : c.gpu.measured->convolution) last[t.type] += t.layout == MemoryFormat::channels_last;
  CHECK(products.size() == 4);
  CHECK(last[ProductType::fp32] == 0);
  CHECK(last[ProductType::tf32] == 0);
  CHECK(last[ProductType::fp16] > 0);
  CHECK(last[ProductType::bf16] > 0);
  Gpu turing;
  turing.capability_major = 7;
  turing.capability_minor = 5;
  CHECK(product_types(turing) == std::vector<ProductType>{ProductType::fp32, ProductType::fp16});
}

TEST_CASE("sizes grow with the work, and every convolution's result is as cuDNN says") {
  for (const bool quick : {true, false}) {
    const std::vector<TimedGemm> products = gemm_sizes(ProductType::fp16, quick);
    CHECK(std::ranges::is_sorted(products, {}, [](const TimedGemm& g) { return flops(g); }));
    std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> seen;
    for (const TimedGemm& g : products) CHECK(seen.emplace(g.m, g.n, g.k).second);
  }
  TimedConvolution stem;
  stem.n = 8, stem.c = 3, stem.h = stem.w = 224, stem.k = 64, stem.r = stem.s = 7, stem.stride = 2, stem.padding = 3;
  CHECK(shape_of(stem).p == 112);
  CHECK(flops(stem) == 2.0 * 8 * 64 * 112 * 112 * 3 * 49);
}

TEST_CASE("what takes too long or has no room is left out and counted") {
  ClockDevice small(1 * kGiB);
  const Calibration without = calibrated(small, {});
  CHECK(without.without_room > 0);
  CHECK(without.gpu.measured->copy.back().bytes <= 256 * kMiB);
  CHECK(small.used() == 0);

  ClockDevice device;
  const Calibration c = calibrated(device, {.quick = true, .budget_seconds = 0.1});
  CHECK(c.too_long > 0);
  CHECK(c.measured > 0);
  CHECK(!calibration_text(c, true).empty());
  CHECK(read_gpu(Source{"x1.yaml", gpu_yaml(with_date(c.gpu))}).measured == with_date(c.gpu).measured);
}

TEST_CASE("a dry run gives the device every operation once") {
  ClockDevice device;
  int calls = 0, total = 0;
  const Calibration c = calibrate(device, describe_gpu(device, {}), {.quick = true, .dry = true},
                                  [&](std::string_view, int done, int all) {
                                    CHECK(done == calls++);
                                    total = all;
                                  });
  CHECK(c.measured == total);
  CHECK(calls == total);
  CHECK(c.operations == total);
}

TEST_CASE("a clock that stands still and a kernel that fails are errors, and the memory goes back") {
  ClockDevice still;
  still.stands_still = true;
  CHECK_THROWS_WITH_AS(calibrated(still), "the device's clock does not advance, so nothing can be measured", Error);
  CHECK(still.used() == 0);
  ClockDevice failing;
  failing.fails_at = 20'000;
  CHECK_THROWS_WITH_AS(calibrated(failing), "the kernel failed", Error);
  CHECK(failing.used() == 0);
  ClockDevice full(40 * kMiB);
  CHECK_THROWS_AS(calibrated(full), Error);
}

TEST_CASE("a calibrated GPU's file is read as what was written") {
  ClockDevice device;
  const Gpu gpu = with_date(calibrated(device).gpu);
  const Gpu again = read_gpu(Source{"somewhere/x1.yaml", gpu_yaml(gpu)});
  CHECK(again.name == "x1");
  CHECK(again.title == "NVIDIA Imaginary X1");
  CHECK(again.architecture == "Ampere");
  CHECK(again.capability_major == 8);
  CHECK(again.capability_minor == 6);
  CHECK(again.sm_count == 84);
  CHECK(again.max_threads_per_sm == 1536);
  CHECK(again.memory_bytes == 16 * kGiB);
  CHECK(again.cuda_total_bytes == 16 * kGiB);
  CHECK(again.context_bytes == 300 * kMiB);
  CHECK(again.l2_cache_bytes == 6 * kMiB);
  CHECK(!again.sm_clock_khz);
  CHECK(again.source == gpu.source);
  CHECK(again.measured == gpu.measured);
  CHECK(gpu_yaml(again) == gpu_yaml(gpu));
}

TEST_CASE("the summary has the best of each table") {
  ClockDevice device;
  const std::string text = calibration_text(Calibration{.gpu = with_date(calibrated(device).gpu)}, false);
  INFO(text);
  CHECK(text.starts_with("NVIDIA Imaginary X1, gpuplan 0.1.0"));
  CHECK(text.find("launch                        2.00 us  from one small kernel to the next") != std::string::npos);
  // 4096 x 4096 x 4096 are 137.4 GFLOP: 1374.4 us at 100 TFLOP/s, and 2 us of launch: 99.85 TFLOP/s.
  CHECK(text.find("99.9 TFLOP/s  at 4096 x 4096 x 4096") != std::string::npos);
  CHECK(text.find(" left out") == std::string::npos);
  CHECK(text.find("300 MiB") != std::string::npos);
}

TEST_CASE("a GPU of the catalog keeps what is known of it") {
  ClockDevice device;
  Gpu known;
  known.title = "An Imaginary X1";
  known.cuda_name = "NVIDIA Imaginary X1";
  known.aliases = {"X1"};
  known.source = "its maker";
  const Gpu found = describe_gpu(device, {Gpu{}, known});
  CHECK(found.aliases == known.aliases);
  CHECK(found.source == "its maker");
}

const std::string kMeasured =
    "title: NVIDIA X1\narchitecture: Xenon\ncompute_capability: 12.1\nsm_count: 7\nmax_threads_per_sm: 1536\n"
    "memory_mib: 1024\nsource: made up\n"
    "measured:\n"
    "  date: 2026-11-21\n"
    "  with: gpuplan 0.1.0\n"
    "  launch_ns: 2000\n"
    "  copy: [[4096, 2100], [16384, 2200]]\n"
    "  host_link:\n"
    "    to_device_pageable: [[4096, 10000]]\n"
    "    to_device_pinned: [[4096, 9000]]\n"
    "    to_host_pageable: []\n"
    "    to_host_pinned: []\n"
    "  gemm:\n"
    "    fp16: [[64, 64, 64, 2500]]\n"
    "  convolution:\n"
    "    fp32: {nchw: {forward: [[1, 64, 56, 56, 64, 3, 3, 1, 1, 30000]]}}\n";

TEST_CASE("measurements in a GPU file are checked at their place") {
  const Gpu gpu = read_gpu(Source{"x1.yaml", kMeasured});
  CHECK(gpu.measured->copy == std::vector<TimedBytes>{{4096, 2100}, {16384, 2200}});
  CHECK(gpu.measured->gemm == std::vector<TimedGemm>{{ProductType::fp16, 64, 64, 64, 2500}});
  REQUIRE(gpu.measured->convolution.size() == 1);
  CHECK(gpu.measured->convolution[0].padding == 1);
  CHECK(gpu.measured->convolution[0].nanoseconds == 30000);

  const auto wrong = [](const char* from, const char* to) { return message_of(replaced(kMeasured, from, to)); };
  CHECK(wrong("2026-11-21", "21.11.2026") == "9:9: date must be YYYY-MM-DD, not \"21.11.2026\"");
  CHECK(wrong("2026-11-21", "2026-13-21") == "9:9: date must be YYYY-MM-DD, not \"2026-13-21\"");
  CHECK(wrong("2026-11-21", "2026-1a-21") == "9:9: date must be YYYY-MM-DD, not \"2026-1a-21\"");
  CHECK(wrong("launch_ns: 2000", "launch_ns: 2.5") == "11:14: launch_ns must be a whole number, not \"2.5\"");
  CHECK(wrong("  launch_ns: 2000\n", "") == "9:3: measured needs launch_ns:");
  CHECK(wrong("  copy:", "  copys:") == "12:3: unknown key \"copys\" in measured — did you mean \"copy\"?");
  CHECK(wrong("[4096, 2100]", "[4096]") == "12:10: a row of copy has 2 numbers, not 1");
  CHECK(wrong("[4096, 2100]", "4096") == "12:10: a row of copy must be a list, not \"4096\"");
  CHECK(wrong("2100", "0") == "12:17: nanoseconds must be a whole number, not \"0\"");
  CHECK(wrong("16384", "4096") == "12:24: these sizes appear twice");
  CHECK(wrong("16384", "1024") == "12:24: the rows are not sorted by their sizes");
  CHECK(wrong("fp16: [[64", "fp166: [[64") == "19:5: unknown key \"fp166\" in gemm — did you mean \"fp16\"?");
  CHECK(wrong("nchw", "nchv") == "21:12: unknown key \"nchv\" in a type of convolution — did you mean \"nchw\"?");
  CHECK(wrong("30000", "-1") == "21:61: nanoseconds must be a whole number, not \"-1\"");
  CHECK(wrong("to_host_pinned: []", "to_host_pinned: 3") == "17:21: to_host_pinned must be a list, not \"3\"");
}

}  // namespace
}  // namespace gpuplan
