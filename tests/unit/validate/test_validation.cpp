// Validation on devices of ordinary memory: what is compared, what is not accounted for, and what goes wrong.
#include "validate/validation.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "estimator/base/error.h"
#include "layers/catalog.h"
#include "tests/host_device/clock_device.h"
#include "tests/host_device/small_models.h"
#include "tests/support/json_schema.h"

namespace gpuplan {
namespace {

RunConfig training() {
  RunConfig run;
  run.batch = 2;
  run.optimizer.kind = OptimizerKind::adam;
  return run;
}

ValidationOptions three_steps() {
  ValidationOptions options;
  options.steps = 3;
  return options;
}

Validation validated(Device& device, const std::string& model, const ValidationOptions& options,
                     const RunConfig& run = training()) {
  return validate(device, small_model(model), make_catalog(), run, ampere(), options);
}

const ValidationRow& row(const Validation& v, std::string_view name) {
  const auto found = std::ranges::find(v.rows, name, &ValidationRow::name);
  REQUIRE(found != v.rows.end());
  return *found;
}

void check_schema(const Validation& v) {
  using Json = nlohmann::json;
  tests::check_against(Json::parse(validation_json_schema()), Json::parse(validation_json(v, 0.01, "1")), "validate");
}

constexpr std::int64_t kContext = 300 << 20;

TEST_CASE("a plan holds on a device that does what it says") {
  for (const char* model : {"mlp", "cnn", "gpt2"}) {
    CAPTURE(model);
    ClockDevice device;
    device.context_bytes = kContext;
    ValidationOptions options = three_steps();
    options.compares_values = true;
    const Validation v = validated(device, model, options);
    for (const ValidationRow& r : v.rows) {
      CAPTURE(r.name);
      if (r.counts) CHECK_EQ(r.error_bytes(), 0);
    }
    CHECK_EQ(v.peak_predicted, v.peak_measured);
    CHECK(v.holds(0));
    CHECK_EQ(v.values_equal, true);
    CHECK_EQ(v.losses.size(), 3);
    CHECK_EQ(v.before.context_bytes, kContext);
    CHECK_EQ(v.before.library_bytes, 0);
    CHECK_EQ(v.unaccounted_bytes, 0);
    CHECK_EQ(device.memory().free_bytes, device.memory().total_bytes - kContext);  // everything went back
    check_schema(v);
  }
}

TEST_CASE("each phase of the settled step is read, of the allocator, the device and the process") {
  ClockDevice device;
  device.context_bytes = kContext;
  ValidationOptions options = three_steps();
  options.process_bytes = [&] { return device.memory().total_bytes - device.memory().free_bytes; };
  const Validation v = validated(device, "cnn", options);
  std::vector<Phase> phases;
  for (const PhaseMemory& p : v.phases) {
    phases.push_back(p.phase);
    CHECK_EQ(p.predicted.live.allocated_bytes, p.measured.live.allocated_bytes);
    CHECK_EQ(p.predicted.peak.reserved_bytes, p.measured.peak.reserved_bytes);
    CHECK_EQ(p.device_bytes, kContext + p.measured.live.reserved_bytes);
    CHECK_EQ(p.process_bytes, p.device_bytes);
  }
  const std::vector<Phase> expected{Phase::start,    Phase::forward,   Phase::loss,
                                    Phase::backward, Phase::optimizer, Phase::end};
  CHECK(phases == expected);
  check_schema(v);
}

TEST_CASE("memory that the plan knows nothing of is unaccounted for") {
  constexpr std::int64_t kMore = 40 << 20, kOthers = 100 << 20;
  ClockDevice device;
  device.context_bytes = kContext + kOthers;
  device.unexpected_bytes = kMore;
  ValidationOptions options = three_steps();
  SUBCASE("of the device") {
    const Validation v = validated(device, "cnn", options);
    CHECK_EQ(v.unaccounted_bytes, kMore);
    CHECK_EQ(v.before.bytes(), kContext + kOthers);
    CHECK_FALSE(v.before.other_bytes().has_value());
    const ValidationRow& whole = row(v, "whole_device");
    CHECK_FALSE(whole.counts);  // who has it is not known
    CHECK_EQ(whole.measured_bytes, kContext + kOthers + kMore + row(v, "peak_reserved").measured_bytes);
    check_schema(v);
  }
  SUBCASE("of the process, where NVML tells it from others") {
    options.process_bytes = [&] { return device.memory().total_bytes - device.memory().free_bytes - kOthers; };
    RunConfig run = training();
    run.context_bytes = kContext;  // --runtime
    const Validation v = validated(device, "cnn", options, run);
    CHECK_EQ(v.unaccounted_bytes, kMore);
    CHECK_EQ(v.before.other_bytes(), kOthers);
    CHECK_EQ(v.before.context_bytes, kContext);
    CHECK_EQ(row(v, "whole_process").measured_bytes, kContext + kMore + row(v, "peak_reserved").measured_bytes);
    CHECK_EQ(row(v, "whole_process").error_bytes(), -kMore);
  }
}

TEST_CASE("memory that runs out says where, and what the plan says of it") {
  RunConfig run = training();
  run.batch = 512;
  ClockDevice whole;
  const std::int64_t half = row(validated(whole, "cnn", three_steps(), run), "peak_reserved").measured_bytes / 2;
  ClockDevice device(half);
  const Validation v = validated(device, "cnn", three_steps(), run);
  REQUIRE(v.ran_out.has_value());
  CHECK(v.ran_out->same);
  CHECK_EQ(v.ran_out->free_bytes, half);
  CHECK_EQ(v.ran_out->measured.step, 1);
  CHECK_FALSE(v.ran_out->measured.layer.empty());
  CHECK_FALSE(v.holds(1));
  CHECK_EQ(device.memory().free_bytes, half);
  const std::string text = validation_text(v, 0.01, {});
  CAPTURE(text);
  CHECK_NE(text.find("out of memory in step 1, "), std::string::npos);
  CHECK_NE(text.find(" that were free: the same"), std::string::npos);
  check_schema(v);
}

TEST_CASE("what is said of memory is where it ran out on the device, be it elsewhere than predicted") {
  ClockDevice device(std::int64_t{64} << 20);
  RunConfig run = training();
  run.batch = 512;
  const std::int64_t needed = row(validated(device, "cnn", three_steps(), run), "peak_reserved").measured_bytes;
  // A device that gives less than it says it has.
  class Stingy final : public HostDevice {
   public:
    explicit Stingy(std::int64_t bytes) : HostDevice(bytes) {}
    DeviceMemory memory() override { return {std::int64_t{64} << 20, std::int64_t{64} << 20}; }
  } stingy(needed / 2);
  const Validation v = validated(stingy, "cnn", three_steps(), run);
  REQUIRE(v.ran_out.has_value());
  CHECK(v.ran_out->predicted.runs);
  CHECK_FALSE(v.ran_out->same);
  CHECK_NE(validation_text(v, 0.01, {}).find("that were free: the step runs"), std::string::npos);
  check_schema(v);
}

TEST_CASE("values that cannot be compared for want of memory are not called unequal, and nothing holds") {
  RunConfig run = training();
  run.batch = 512;
  ClockDevice whole;
  const std::int64_t needed = row(validated(whole, "cnn", three_steps(), run), "peak_reserved").measured_bytes;
  ClockDevice device(needed);
  ValidationOptions options = three_steps();
  options.compares_values = true;
  const Validation v = validated(device, "cnn", options, run);
  CHECK_FALSE(v.values_equal.has_value());
  CHECK_FALSE(v.values_not_compared.empty());
  CHECK_FALSE(v.holds(1));
}

TEST_CASE("a kernel that fails on the device is named with its layer and shapes, although the device says so later") {
  ClockDevice device;
  device.fails_at = 4;
  CHECK_THROWS_WITH_AS(validated(device, "mlp", three_steps()),
                       "aten::addmm of 4 (fp32[2, 8], fp32[8, 5], fp32[5] -> fp32[2, 5]): an illegal memory access was "
                       "encountered",
                       Error);
}

TEST_CASE("what the device lacks is said before anything runs, all of it") {
  struct Lacking final : ClockDevice {
    std::string refusal(const Kernel& kernel) const override {
      return kernel.op == Operator::gelu || kernel.op == Operator::native_layer_norm ? "there is no kernel for it" : "";
    }
  } device;
  try {
    (void)validated(device, "mlp", three_steps());
    FAIL("it ran");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::environment);
    CHECK_EQ(e.message(),
             "this plan cannot be run on this device: aten::native_layer_norm of 5: there is no kernel for it; "
             "aten::gelu of 6: there is no kernel for it");
  }
  CHECK_EQ(device.kernels, 0);
}

TEST_CASE("progress is told before every kernel, and ends the validation when it throws") {
  struct Stop {};
  ClockDevice device;
  ValidationOptions options = three_steps();
  std::vector<std::string> stages;
  options.progress = [&](const ValidationStage& s) {
    const std::string stage = std::string(s.what) + " " + std::to_string(s.step) + "/" + std::to_string(s.steps);
    if (stages.empty() || stages.back() != stage) stages.push_back(stage);
    if (stage == "time 2/8") throw Stop{};
  };
  CHECK_THROWS_AS(validated(device, "mlp", options), Stop);
  CHECK(stages == std::vector<std::string>{"memory 0/3", "memory 1/3", "memory 2/3", "memory 3/3", "time 0/8",
                                           "time 1/8", "time 2/8"});
}

TEST_CASE("without kernels there are no values and no times") {
  ClockDevice device;
  ValidationOptions options = three_steps();
  options.computes = false;
  options.compares_values = true;
  const Validation v = validated(device, "mlp", options);
  CHECK(v.losses.empty());
  CHECK_FALSE(v.times.has_value());
  CHECK_FALSE(v.values_equal.has_value());
  CHECK(v.holds(0));
  CHECK_NE(validation_text(v, 0.01, {}).find("values and times need a real GPU"), std::string::npos);
  check_schema(v);
}

TEST_CASE("NVML answers nothing where it is not, or knows no such GPU") {
  CHECK_FALSE(process_bytes_by_nvml("ffff:ff:00.0")().has_value());
  CHECK_FALSE(process_bytes_by_nvml("")().has_value());
}

}  // namespace
}  // namespace gpuplan
