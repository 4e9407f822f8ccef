// Executions of the loops beside plain training: inference, micro-batches, a GradScaler, master weights and an
// optimizer in backward.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "tests/host_device/elements.h"
#include "tests/host_device/executed.h"
#include "tests/host_device/host_device.h"
#include "tests/host_device/recording_fake.h"
#include "tests/host_device/small_models.h"
#include "validate/executor/half.h"

namespace gpuplan {
namespace {

std::vector<double> values(const std::vector<std::byte>& bytes, DType dtype) {
  std::vector<double> result;
  for (std::size_t i = 0; i < bytes.size(); i += static_cast<std::size_t>(size_of(dtype))) {
    const auto get = [&]<class T>(T value) { return std::memcpy(&value, &bytes[i], sizeof value), value; };
    result.push_back(dtype == DType::fp64   ? get(double{})
                     : dtype == DType::fp32 ? static_cast<double>(get(float{}))
                     : dtype == DType::fp16 ? fp16_value(get(std::uint16_t{}))
                                            : bf16_value(get(std::uint16_t{})));
  }
  return result;
}

// The largest difference, of the largest value.
double difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(b[i]));
    largest = std::isfinite(a[i]) ? std::max(largest, std::abs(a[i] - b[i])) : HUGE_VAL;
  }
  return largest / std::max(most, 1e-3);
}

bool finite(const std::vector<double>& all) {
  return std::ranges::all_of(all, [](double x) { return std::isfinite(x); });
}

// What is allocated and what a kernel is given, on a device that keeps books.
void check_books(const Executable& e) {
  RecordingFake device;
  ExecutionOptions options;
  options.poison = true;
  const ExecutionResult executed = run(device, e.step, options);
  const LoopReplay planned = replay_step(e.step);
  CHECK(joined(device.wrong) == "");
  CHECK(executed.replay.peak.allocated_bytes == planned.peak.allocated_bytes);
  CHECK(executed.replay.peak.reserved_bytes == planned.peak.reserved_bytes);
  CHECK(executed.replay.allocations == planned.allocations);
  CHECK(executed.replay.charged_bytes == planned.charged_bytes);
}

// Returns the execution that frees what the plan frees, with poison in what is freed.
ExecutionResult check_sufficient(const Executable& e) {
  REQUIRE(joined(refusals(HostDevice(), e.step)) == "");
  check_books(e);
  const ExecutionResult kept = executed(e, true);
  ExecutionResult freed = executed(e, false);
  CHECK(finite(freed.losses));
  CHECK(freed.losses == kept.losses);
  CHECK(freed.weights == kept.weights);
  CHECK(freed.gradients == kept.gradients);
  CHECK(freed.output == kept.output);
  CHECK(freed.scales == kept.scales);
  return freed;
}

RunConfig training(std::int64_t batch, OptimizerKind kind = OptimizerKind::sgd) {
  RunConfig run;
  run.batch = batch;
  run.optimizer.kind = kind;
  return run;
}

RunConfig inference(Loop loop = Loop::function) {
  RunConfig run;
  run.mode = Mode::infer;
  run.batch = 2;
  run.loop = loop;
  run.optimizer.kind = OptimizerKind::none;
  return run;
}

TEST_CASE("inference frees nothing that its output needs") {
  for (const std::string& name : small_models())
    for (const Loop loop : {Loop::function, Loop::plain}) {
      CAPTURE(name);
      const auto e = executable(small_model(name), inference(loop), ampere());
      const ExecutionResult result = check_sufficient(*e);
      CHECK(result.losses.empty());
      CHECK(result.gradients.empty());
      const Tensor& output = e->step.graph.tensor(e->step.graph.output);
      CHECK(static_cast<std::int64_t>(result.output.size()) == output.shape.elements() * size_of(output.dtype));
      CHECK(finite(values(result.output, output.dtype)));
    }
}

RunConfig in_parts(std::int64_t batch, std::int64_t parts, OptimizerKind kind = OptimizerKind::adam) {
  RunConfig run = training(batch, kind);
  run.micro_batches = parts;
  return run;
}

TEST_CASE("micro-batches free nothing that is needed, and accumulate") {
  for (const std::string& name : small_models()) {
    CAPTURE(name);
    const ExecutionResult result = check_sufficient(*executable(small_model(name), in_parts(4, 2), ampere()));
    REQUIRE(result.losses.size() == 3);
    CHECK(result.losses[0] != result.losses[2]);
    // Three steps: start, optimizer and end once, forward, loss and backward twice.
    CHECK(result.readings.size() == 3 * (3 + 2 * 3));
  }
  check_sufficient(*executable(small_model("cnn"), in_parts(6, 3), ampere()));
  RunConfig run = in_parts(4, 2);
  run.layout = MemoryFormat::channels_last;
  check_sufficient(*executable(small_model("unet"), run, ampere()));
}

// A mean over the batch is the mean of the means over its halves. Without an optimizer the weights stay; models
// without dropout and without batch statistics.
TEST_CASE("gradients of micro-batches add up to those of the whole batch") {
  struct Case {
    const char* name;
    DType precision;
    double tolerance;
  };
  for (const Case& c : {Case{"vit", DType::fp64, 1e-12}, Case{"llama", DType::fp32, 1e-5}}) {
    CAPTURE(c.name);
    RunConfig whole = training(6, OptimizerKind::none);
    whole.precision = c.precision;
    for (const std::int64_t parts : {std::int64_t{2}, std::int64_t{3}}) {
      RunConfig run = whole;
      run.micro_batches = parts;
      const auto one = executable(small_model(c.name), whole, ampere());
      const auto many = executable(small_model(c.name), run, ampere());
      const ExecutionResult expected = executed(*one, false), result = executed(*many, false);
      CHECK(difference(result.losses, expected.losses) <= c.tolerance);
      CHECK(result.weights == expected.weights);
      REQUIRE(result.gradients.size() == expected.gradients.size());
      REQUIRE(!result.gradients.empty());
      for (std::size_t i = 0; i < result.gradients.size(); ++i)
        CHECK(difference(values(result.gradients[i], c.precision), values(expected.gradients[i], c.precision)) <=
              c.tolerance);
    }
  }
}

RunConfig scaled(std::int64_t batch = 2, OptimizerKind kind = OptimizerKind::adam) {
  RunConfig run = training(batch, kind);
  run.autocast = DType::fp16;
  return run;
}

TEST_CASE("a loop with a GradScaler frees nothing that is needed") {
  for (const std::string& name : small_models()) {
    CAPTURE(name);
    const ExecutionResult result = check_sufficient(*executable(small_model(name), scaled(), hopper()));
    REQUIRE(result.scales.size() == 3);
    CHECK(result.scales.back() == std::ldexp(65536.0, -result.skipped_steps));
  }
  for (const OptimizerImpl impl : {OptimizerImpl::for_loop, OptimizerImpl::fused}) {
    RunConfig run = scaled();
    run.optimizer.impl = impl;
    run.clip_grad_norm = true;
    check_sufficient(*executable(small_model("mlp"), run, hopper()));
  }
  RunConfig run = scaled(4);
  run.micro_batches = 2;
  check_sufficient(*executable(small_model("bert"), run, hopper()));
}

// Begins with another scale.
class ScalingDevice final : public HostDevice {
 public:
  explicit ScalingDevice(float scale) : scale_(scale) {}
  void copy_to_device(void* to, const void* from, std::int64_t bytes) override {
    float value = 0;
    if (bytes == sizeof value) std::memcpy(&value, from, sizeof value);
    HostDevice::copy_to_device(to, value == 65536 ? &scale_ : from, bytes);
  }

 private:
  float scale_;
};

// A scale of 1 scales nothing. Where nothing overflows and nothing becomes too small for fp16 a power of two changes no
// digit; what is below 6e-5 loses some with a scale of 1.
TEST_CASE("... and hands the optimizer gradients that are not scaled") {
  for (const std::string name : {"mlp", "vit", "llama"}) {
    CAPTURE(name);
    const auto e = executable(small_model(name), scaled(4, OptimizerKind::sgd), hopper());
    ExecutionOptions options;
    options.collects = true;
    ScalingDevice one(1), many(1024);
    const ExecutionResult expected = run(one, e->step, options), result = run(many, e->step, options);
    CHECK(expected.scales.back() == 1);
    CHECK(result.scales.back() == 1024);
    REQUIRE(result.gradients.size() == expected.gradients.size());
    double norm = 0, of_difference = 0;
    for (std::size_t i = 0; i < result.gradients.size(); ++i) {
      const std::vector<double> a = values(result.gradients[i], DType::fp32);
      const std::vector<double> b = values(expected.gradients[i], DType::fp32);
      for (std::size_t k = 0; k < a.size(); ++k) {
        norm += b[k] * b[k];
        of_difference += (a[k] - b[k]) * (a[k] - b[k]);
      }
    }
    CHECK(norm > 0.01);
    CHECK(std::sqrt(of_difference / norm) < 0.005);
  }
}

// Sees what the optimizer is given, and puts an infinity into the gradients of one of its steps.
class SteppingDevice final : public HostDevice {
 public:
  explicit SteppingDevice(int infinite = -1) : infinite_(infinite) {}

  struct Update {
    std::int64_t step;
    std::vector<std::vector<double>> before, gradients, after;
  };
  std::vector<Update> updates;

  void unscale_gradients(std::span<const KernelTensor> gradients, const ScalerValues& scaler) override {
    if (unscaled_++ == infinite_) host::store(gradients[0], 0, HUGE_VAL);
    HostDevice::unscale_gradients(gradients, scaler);
  }
  void update(const OptimizerConfig& config, std::int64_t step, std::span<const ParameterUpdate> given) override {
    Update& u = updates.emplace_back();
    u.step = step;
    for (const ParameterUpdate& p : given) {
      u.before.push_back(host::read(p.parameter).at);
      u.gradients.push_back(host::read(p.gradient).at);
    }
    HostDevice::update(config, step, given);
    for (const ParameterUpdate& p : given) u.after.push_back(host::read(p.parameter).at);
  }

 private:
  int infinite_, unscaled_ = 0;
};

TEST_CASE("a step whose gradients are not finite is left out, and the scale halved") {
  const auto e = executable(small_model("mlp"), scaled(), hopper());
  SteppingDevice device(1);
  ExecutionOptions options;
  options.poison = true;
  options.steps = 4;
  const ExecutionResult result = run(device, e->step, options);
  CHECK(result.skipped_steps == 1);
  CHECK(result.scales == std::vector<double>{65536, 32768, 32768, 32768});
  REQUIRE(device.updates.size() == 3);
  CHECK(device.updates[1].before == device.updates[0].after);
  CHECK(device.updates[2].step == 3);  // the optimizer has not counted it
}

TEST_CASE("with master weights the optimizer steps fp32 copies, from which the weights are rounded") {
  for (const DType precision : {DType::bf16, DType::fp16})
    for (const bool clips : {false, true}) {
      RunConfig run = training(2, OptimizerKind::adam);
      run.precision = precision;
      run.master_weights = true;
      run.clip_grad_norm = clips;
      for (const std::string name : {"mlp", "cnn", "llama"}) {
        CAPTURE(name);
        const auto e = executable(small_model(name), run, hopper());
        const ExecutionResult result = check_sufficient(*e);
        SteppingDevice device;
        gpuplan::run(device, e->step, ExecutionOptions{});
        REQUIRE(device.updates.size() == 3);
        const auto rounded = [&](double x) {
          return precision == DType::bf16 ? bf16_value(bf16_bits(x)) : fp16_value(fp16_bits(x));
        };
        for (std::size_t i = 0; i < device.updates[0].before.size(); ++i) {
          for (const double w : device.updates[0].before[i]) CHECK(w == rounded(w));
          CHECK(device.updates[1].before[i] == device.updates[0].after[i]);
          CHECK(device.updates[2].before[i] == device.updates[1].after[i]);
          std::vector<double> last = device.updates[2].after[i];
          for (double& w : last) w = rounded(w);
          const auto p = static_cast<std::size_t>(e->schedule().with_gradient[i]);
          CHECK(values(result.weights[p], precision) == last);
          CHECK(values(result.gradients[i], DType::fp32) == device.updates[2].gradients[i]);
        }
      }
    }
}

// It steps what the optimizer after backward would step, with the same gradients.
TEST_CASE("an optimizer in backward computes what one after it does") {
  for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::adamw, OptimizerKind::adagrad})
    for (const std::string name : {"mlp", "cnn", "vit", "llama"}) {
      CAPTURE(name);
      RunConfig after = training(2, kind), within = after;
      within.optimizer_in_backward = true;
      const ExecutionResult expected = executed(*executable(small_model(name), after, ampere()), false);
      const ExecutionResult result = check_sufficient(*executable(small_model(name), within, ampere()));
      CHECK(result.losses == expected.losses);
      CHECK(result.weights == expected.weights);
      CHECK(result.gradients == expected.gradients);
    }
}

}  // namespace
}  // namespace gpuplan
