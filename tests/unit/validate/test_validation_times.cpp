// Times of steps by a clock that only operations move, the work that rows of them say, and the rooflines of GPUs.
#include <doctest/doctest.h>

#include <algorithm>

#include "estimator/time/work.h"
#include "tests/host_device/clock_device.h"
#include "tests/host_device/small_models.h"
#include "tools/options/run_options.h"
#include "validate/step_times.h"

namespace gpuplan {
namespace {

RunConfig training() {
  RunConfig run;
  run.batch = 2;
  run.optimizer.kind = OptimizerKind::adam;
  return run;
}

const TimeRow& row(const std::vector<TimeRow>& rows, std::string_view name) {
  const auto found = std::ranges::find(rows, name, &TimeRow::name);
  REQUIRE(found != rows.end());
  return *found;
}

// A peak of 1 TFLOP/s and 1 TB/s.
Peaks round_peaks() { return {1e12, 1e12, 1e12, 1e12, 1e12, 1e12}; }

TEST_CASE("the spread of readings") {
  CHECK_EQ(spread_of({}).median, 0);
  const Spread odd = spread_of({5, 1, 3});
  CHECK_EQ(odd.median, 3);
  CHECK_EQ(odd.least, 1);
  CHECK_EQ(odd.most, 5);
  CHECK_EQ(spread_of({4, 1, 2, 8}).median, 3);
}

TEST_CASE("steps are timed after two of warm-up, first without marks between operations, then with them") {
  RunConfig run = training();
  run.clip_grad_norm = true;
  const auto e = executable(small_model("mlp"), run, ampere());
  ClockDevice device;
  // Warm-up is slow; of three steps without marks the second is the median, of three with them the third.
  const std::vector<double> speed{100, 100, 1, 2, 3, 8, 2, 4};
  device.milliseconds_of = [&](int step) { return speed.at(static_cast<std::size_t>(step)); };
  const StepTimes times = time_steps(device, e->step, 3, round_peaks(), nullptr);
  const auto kernels = static_cast<double>(device.kernels) / 8;
  const double work = kernels + 5 + 3;  // the optimizer and clipping
  CHECK(times.steps_ms == std::vector<double>{work, 2 * work, 3 * work});
  CHECK(times.marked_ms == std::vector<double>{8 * work, 2 * work, 4 * work});
  const TimeRow& update = row(times.layers, "(optimizer)");
  CHECK_EQ(update.update_ms, 4 * 8);
  CHECK_EQ(update.total_ms.median, 4 * 8);
  CHECK_EQ(update.total_ms.least, 2 * 8);
  CHECK_EQ(update.total_ms.most, 8 * 8);
  CHECK_EQ(update.operations, 2);
  CHECK_EQ(row(times.operations, "clip_grad_norm_").update_ms, 4 * 3);
  // Every operation is in one row of each table.
  for (const auto* rows : {&times.layers, &times.classes, &times.operations}) {
    double total = 0, least = 0;
    for (const TimeRow& r : *rows) {
      total += r.total_ms.median;
      least += r.least_ms;
      CHECK_EQ(r.forward_ms + r.backward_ms + r.update_ms, r.total_ms.median);
    }
    CHECK_EQ(total, doctest::Approx(4 * work));
    CHECK_EQ(least, doctest::Approx(times.least_ms));
    CHECK(std::ranges::is_sorted(*rows, std::ranges::greater{}, [](const TimeRow& r) { return r.total_ms.median; }));
  }
  // Events are used again: no step needs more marks than its operations, and one to begin with.
  CHECK_LE(device.most_marks, static_cast<int>(kernels) + 2 + 1 + 4);
}

TEST_CASE("a layer's row has its operations' work") {
  const auto e = executable(small_model("mlp"), training(), ampere());
  ClockDevice device;
  const StepTimes times = time_steps(device, e->step, 3, round_peaks(), nullptr);
  // Linear(6, 8) of a batch of 2. Forward, addmm: 2 x 2 x 6 x 8 FLOP and 16 of the bias; reads x [2, 6], w [6, 8] and
  // b [8], writes [2, 8]. Backward: the weight's gradient by a product of [8, 2] and [2, 6], and the bias's by a sum of
  // 16; the input needs none.
  const TimeRow& linear = row(times.layers, "0");
  CHECK_EQ(linear.flops, (192 + 16) + 192 + 16);
  CHECK_EQ(linear.bytes, 4 * ((12 + 48 + 8 + 16) + (16 + 12 + 48) + (16 + 8)));
  CHECK_EQ(linear.operations, 3);
  CHECK_EQ(linear.forward_ms, 1);
  CHECK_EQ(linear.backward_ms, 2);
  CHECK_EQ(linear.flops_per_second(), doctest::Approx(416 / 3e-3));
  // Each of them moves longer than it computes: 336, 304 and 96 bytes at 1 TB/s.
  CHECK_EQ(linear.least_ms, doctest::Approx((336 + 304 + 96) / 1e9));
  CHECK_EQ(linear.roofline(), doctest::Approx((336 + 304 + 96) / 1e9 / 3));
}

TEST_CASE("an optimizer step reads and writes parameters and states, and reads gradients") {
  const auto e = executable(small_model("mlp"), training(), ampere());
  // Linear(6, 8), BatchNorm1d(8), Linear(8, 5), LayerNorm(5), Linear(5, 3).
  const std::int64_t parameters = (48 + 8) + 16 + (40 + 5) + 10 + (15 + 3);
  std::int64_t steps = 0;  // Adam's counters, one a parameter, where they are on the GPU
  for (const OptimizerEvent& event : e->step.optimizer.first.events)
    if (event.kind == OptimizerEvent::Kind::alloc_state && event.bytes == 4) ++steps;
  const Work work = update_work(e->step.graph, e->schedule(), e->step.optimizer);
  CHECK_EQ(work.bytes, 4 * (2 + 1 + 2 * 2) * parameters + 2 * 4 * steps);
}

TEST_CASE("an embedding moves the rows that are looked up, an expanded operand its elements once") {
  Calls calls;
  const auto view = [](std::initializer_list<std::int64_t> sizes, DType type) {
    OperandView v;
    v.buffer = 0;
    v.dtype = type;
    for (const std::int64_t s : sizes) v.shape.push_back(s);
    v.strides = contiguous_strides(v.shape);
    return v;
  };
  calls.operands = {view({1000, 16}, DType::fp32), view({3}, DType::int64), view({3, 16}, DType::fp32)};
  const KernelCall call{.step = 0, .reads = {0, 2}, .extra = {}, .writes = {2, 3}, .attributes = {}};
  const Primitive lookup =
      Lookup{.indices = 3, .vocabulary = 1000, .features = 16, .backward = false, .dtype = DType::fp32};
  ScheduledOp step;
  step.what = &lookup;
  CHECK_EQ(work_of(step, call, calls, false).bytes, 3 * 16 * 4 + 3 * 8 + 3 * 16 * 4);
  const Primitive sum = Elementwise{48, 1};
  step.what = &sum;
  calls.operands[0] = view({3, 16}, DType::fp32);
  calls.operands[0].strides.set(0, 0);
  CHECK_EQ(work_of(step, call, calls, false).bytes, 16 * 4 + 3 * 8 + 3 * 16 * 4);
  CHECK_EQ(work_of(step, call, calls, false).plain_flops, 48);
}

TEST_CASE("peaks are those of NVIDIA's whitepapers, by clocks and units") {
  const auto peaks = [](std::string_view name) {
    for (const Gpu& g : gpu_table())
      if (g.name == name) return peaks_of(g);
    FAIL("no such GPU");
    return Peaks{};
  };
  // A100 whitepaper: 312, 156, 19.5 and 19.5 (tensor cores) TFLOP/s; 1555 GB/s.
  const Peaks a100 = peaks("a100-40gb");
  CHECK_EQ(a100.half / 1e12, doctest::Approx(312).epsilon(0.003));
  CHECK_EQ(a100.tf32 / 1e12, doctest::Approx(156).epsilon(0.003));
  CHECK_EQ(a100.fp32 / 1e12, doctest::Approx(19.5).epsilon(0.003));
  CHECK_EQ(a100.fp64 / 1e12, doctest::Approx(19.5).epsilon(0.003));
  CHECK_EQ(a100.bytes / 1e9, doctest::Approx(1555).epsilon(0.003));
  // Turing whitepaper, T4: 65 and 8.1 TFLOP/s; 320 GB/s. It has no TF32.
  const Peaks t4 = peaks("t4");
  CHECK_EQ(t4.half / 1e12, doctest::Approx(65).epsilon(0.005));
  CHECK_EQ(t4.fp32 / 1e12, doctest::Approx(8.1).epsilon(0.006));
  CHECK_EQ(t4.tf32, t4.fp32);
  CHECK_EQ(t4.bytes / 1e9, doctest::Approx(320).epsilon(0.003));
  // H100 whitepaper: 66.9 TFLOP/s of fp32. H200: 989.4 TFLOP/s at 1830 MHz; its clock goes up to 1980.
  const Peaks h200 = peaks("h200");
  CHECK_EQ(h200.fp32 / 1e12, doctest::Approx(66.9).epsilon(0.003));
  CHECK_EQ(h200.half / 1e12, doctest::Approx(989.4 * 1980 / 1830).epsilon(0.003));
}

TEST_CASE("the least time is that of the slower of arithmetic and traffic, and unknown without peaks") {
  Work work{.product_flops = 2'000'000'000, .plain_flops = 0, .bytes = 1'000'000'000};
  CHECK_EQ(least_milliseconds(work, round_peaks()), doctest::Approx(2));
  work.bytes = 5'000'000'000;
  CHECK_EQ(least_milliseconds(work, round_peaks()), doctest::Approx(5));
  CHECK_EQ(least_milliseconds(work, Peaks{}), 0);
  CHECK_FALSE(peaks_of(Gpu{}).known());
  Peaks peaks = round_peaks();
  peaks.half = 4e12;
  work = {.product_flops = 2'000'000'000, .plain_flops = 0, .bytes = 0, .dtype = DType::bf16};
  CHECK_EQ(least_milliseconds(work, peaks), doctest::Approx(0.5));
}

}  // namespace
}  // namespace gpuplan
