// The screen of `gpuplan validate`, of a validation filled in by hand.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/support/golden.h"
#include "tests/support/json_schema.h"
#include "tests/support/report_example.h"
#include "validate/validation.h"

namespace gpuplan {
namespace {

TimeRow time_row(std::string name, double forward, double backward, double update) {
  TimeRow r;
  r.name = std::move(name);
  r.operations = 2;
  r.forward_ms = forward;
  r.backward_ms = backward;
  r.update_ms = update;
  const double total = forward + backward + update;
  r.total_ms = {total, total - 0.01, total + 0.02};
  r.flops = 4'000'000'000;
  r.bytes = 200'000'000;
  r.least_ms = total / 2;
  return r;
}

Validation example() {
  Validation v;
  v.device.name = "NVIDIA H200";
  v.device.versions = "a driver for CUDA 13.0, CUDA 13.0, cuBLAS 13.1, cuDNN 9.19";
  v.plan = tests::example_report();
  v.before.device_bytes = 700LL << 20;
  v.before.process_bytes = 500LL << 20;
  v.before.context_bytes = 430LL << 20;
  v.before.library_bytes = 70LL << 20;
  v.rows = {{"model_and_batch", "model and batch", 682000, 682000},
            {"peak_allocated", "peak allocated", 3000320, 2956000},
            {"peak_reserved", "peak reserved", 25165824, 25165824},
            {"whole_process", "whole process (NVML)", 562036736, 551550976, false}};
  v.unaccounted_bytes = 2LL << 20;
  v.peak_predicted = v.peak_measured = "backward of stage1.bn";
  for (const PhaseRow& p : v.plan.phases) v.phases.push_back({p.phase, p, p, 600LL << 20, 500LL << 20});
  v.losses = {2.302585, 2.25, 2.125};
  v.values_equal = true;
  StepTimes t;
  t.peaks = {4.8e12, 67e12, 67e12, 500e12, 1000e12, 67e12};
  t.warm_up_steps = 2;
  t.steps_ms = {4.1, 4.0, 4.25};
  t.marked_ms = {4.5, 4.6, 4.4};
  t.least_ms = 2;
  t.layers = {time_row("stage1.conv", 1, 2, 0), time_row("head", 0.25, 0.5, 0), time_row("(optimizer)", 0, 0, 0.5)};
  t.classes = {time_row("convolution", 1, 2, 0)};
  t.operations = {time_row("aten::convolution", 1, 2, 0)};
  v.times = t;
  return v;
}

TEST_CASE("the screen") { tests::check_golden("validate.txt", validation_text(example(), 0.01, {})); }

TEST_CASE("the screen with everything, in ASCII") {
  const TextStyle style{.unicode = false, .verbose = true};
  tests::check_golden("validate_verbose.txt",
                      validation_text(example(), 0.02, style, {.by = TimesBy::layer, .max_rows = 2}));
}

TEST_CASE("the screen where memory ran out") {
  Validation v = example();
  RanOut out;
  out.measured = {.tried_bytes = 2 << 20,
                  .allocated_bytes = 20 << 20,
                  .reserved_bytes = 22 << 20,
                  .step = 1,
                  .phase = Phase::backward,
                  .op = "aten::convolution_backward",
                  .layer = "stage1.conv"};
  out.predicted = out.measured;
  out.predicted.layer = "stage1.bn";
  out.predicted.op = "aten::cudnn_batch_norm_backward";
  out.free_bytes = 23 << 20;
  v.ran_out = out;
  v.suggestions = {{"--batch 1", 20 << 20, 0}, {"--batch 3", 25 << 20, 2}};
  tests::check_golden("validate_out_of_memory.txt", validation_text(v, 0.01, {}));
  tests::check_against(nlohmann::json::parse(validation_json_schema()),
                       nlohmann::json::parse(validation_json(v, 0.01, "1")), "validate");
}

TEST_CASE("the verdict alone") {
  CHECK_EQ(validation_text(example(), 0.02, {.brief = true}),
           "NVIDIA H200 · a driver for CUDA 13.0, CUDA 13.0, cuBLAS 13.1, cuDNN 9.19\n"
           "  ✔ peak allocated 2.86 MiB predicted, 2.82 MiB measured, +1.5 %\n");
}

TEST_CASE("what was run otherwise than planned is said") {
  Validation v = example();
  v.remarks = {"a kernel wanted more, 4096 bytes at most, in stage1.bn"};
  CHECK_NE(validation_text(v, 0.02, {}).find("\n  note: a kernel wanted more, 4096 bytes at most, in stage1.bn\n"),
           std::string::npos);
  CHECK_EQ(nlohmann::json::parse(validation_json(v, 0.02, "1"))["remarks"][0], v.remarks[0]);
}

TEST_CASE("an error over the tolerance, another peak or other values are a no") {
  CHECK_FALSE(example().holds(0.01));  // the peak: 3,000,320 of 2,956,000 are 1.5 % more
  CHECK(example().holds(0.02));
  Validation v = example();
  v.peak_measured = "forward of head";
  CHECK_FALSE(v.holds(0.02));
  v = example();
  v.values_equal = false;
  CHECK_FALSE(v.holds(0.02));
  v = example();
  v.values_equal.reset();
  v.values_not_compared = "no room";
  CHECK_FALSE(v.holds(0.02));
}

TEST_CASE("the JSON has everything that its schema says") {
  using Json = nlohmann::json;
  const Json json = Json::parse(validation_json(example(), 0.02, "1"));
  tests::check_against(Json::parse(validation_json_schema()), json, "validate");
  CHECK_EQ(json["times"]["step"]["median_ms"], 4.1);
  CHECK_EQ(json["times"]["layers"][0]["name"], "stage1.conv");
  CHECK_EQ(json["rows"][1]["error_bytes"], 3000320 - 2956000);
  CHECK_EQ(json["before"]["library_bytes"], 70LL << 20);
  CHECK_EQ(json["holds"], true);
}

}  // namespace
}  // namespace gpuplan
