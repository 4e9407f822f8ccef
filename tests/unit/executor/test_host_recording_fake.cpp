// The execution itself, on a device that only keeps books: the order of events, that every operand lies in a block that
// is there, memory that runs out half way, and a kernel that fails.
#include <doctest/doctest.h>

#include <algorithm>

#include "estimator/base/error.h"
#include "tests/host_device/executed.h"
#include "tests/host_device/host_device.h"
#include "tests/host_device/recording_fake.h"
#include "tests/host_device/small_models.h"

namespace gpuplan {
namespace {

RunConfig training() {
  RunConfig run;
  run.batch = 2;
  run.optimizer.kind = OptimizerKind::adam;
  run.clip_grad_norm = true;
  return run;
}

ExecutionOptions poisoned() {
  ExecutionOptions options;
  options.poison = true;
  return options;
}

TEST_CASE("every kernel runs in the schedule's order, three times, each time with its update") {
  for (const std::string& name : small_models()) {
    CAPTURE(name);
    const auto e = executable(small_model(name), training(), ampere());
    RecordingFake device;
    const ExecutionResult result = run(device, e->step, poisoned());
    std::vector<std::string> expected;
    for (int step = 1; step <= 3; ++step) {
      for (const KernelCall& call : e->calls().calls) {
        const ScheduledOp& s = e->schedule().ops[static_cast<std::size_t>(call.step)];
        if (std::holds_alternative<Marker>(*s.what)) continue;  // aten::empty: no kernel
        const std::string layer = s.layer == kNone ? "" : e->step.graph.layers[static_cast<std::size_t>(s.layer)].name;
        expected.push_back("run " + std::string(s.name) + " of " + layer);
      }
      expected.insert(expected.end(), {"clip", "update " + std::to_string(step)});
    }
    CHECK(device.events == expected);
    CHECK(joined(device.wrong) == "");
    CHECK(result.losses.size() == 3);
    CHECK(!result.within.out_of_memory);
  }
}

TEST_CASE("what the execution allocates is what the estimate says") {
  for (const std::string& name : small_models()) {
    CAPTURE(name);
    const auto e = executable(small_model(name), training(), ampere());
    RecordingFake device;
    const ExecutionResult executed = run(device, e->step, poisoned());
    const LoopReplay planned = replay_step(e->step);
    CHECK(executed.replay.peak.allocated_bytes == planned.peak.allocated_bytes);
    CHECK(executed.replay.peak.reserved_bytes == planned.peak.reserved_bytes);
    CHECK(executed.replay.allocations == planned.allocations);
    CHECK(executed.replay.charged_bytes == planned.charged_bytes);
    // Each block is poisoned when it comes and when it goes; those of the model, its optimizer and the last step stay.
    CHECK(device.poisoned + static_cast<std::int64_t>(device.live_blocks()) == 2 * planned.allocations);
    CHECK(device.live_blocks() >= e->step.graph.parameters.size());
  }
}

TEST_CASE("... and of segments the device is asked for as many as it reserves") {
  const auto e = executable(small_model("gpt2"), training(), ampere());
  RecordingFake device;
  const ExecutionResult result = run(device, e->step, ExecutionOptions{});
  REQUIRE(!result.readings.empty());
  const DeviceMemory last = result.readings.back().memory;
  CHECK(last.total_bytes - last.free_bytes == result.replay.phases.back().live.reserved_bytes);
}

TEST_CASE("memory that runs out half way ends the execution where the estimate says") {
  const auto e = executable(small_model("cnn"), training(), ampere());
  RecordingFake whole;
  const std::int64_t needed = run(whole, e->step, ExecutionOptions{}).replay.peak.reserved_bytes;
  int ended = 0;
  for (const std::int64_t bytes : {needed, needed - (2 << 20), needed / 2, std::int64_t{4} << 20, std::int64_t{0}}) {
    CAPTURE(bytes);
    RecordingFake device(bytes);
    const ExecutionResult executed = run(device, e->step, poisoned());
    const LimitedReplay planned = replay_within(bytes, e->step);
    CHECK(executed.within.out_of_memory == planned.out_of_memory);
    CHECK(executed.within.training_step == planned.training_step);
    CHECK(executed.within.phase == planned.phase);
    CHECK(executed.within.step == planned.step);
    CHECK(executed.within.reading.tried_bytes == planned.reading.tried_bytes);
    CHECK(joined(device.wrong) == "");
    ended += executed.within.out_of_memory ? 1 : 0;
  }
  CHECK(ended >= 2);
}

TEST_CASE("a kernel that fails ends the execution with its name, its layer and its shapes") {
  const auto e = executable(small_model("mlp"), training(), ampere());
  RecordingFake device;
  device.fails_at = 4;
  CHECK_THROWS_WITH_AS(run(device, e->step, ExecutionOptions{}),
                       "aten::addmm of 4 (fp32[2, 8], fp32[8, 5], fp32[5] -> fp32[2, 5]): refused", Error);
  CHECK(device.events.size() == 4);
}

TEST_CASE("the models that plans are validated with have nothing that the host device lacks") {
  for (const char* name :
       {"resnet50", "mobilenet_v2", "vgg11", "unet_small", "mlp", "gpt2", "bert_base", "vit_b_16", "tinyllama_1b"})
    for (const bool half : {false, true}) {
      CAPTURE(name);
      CAPTURE(half);
      RunConfig run = training();
      if (half) run.autocast = DType::bf16;
      const auto e = executable(small_zoo_model(name, {}), run, half ? hopper() : ampere());
      CHECK(joined(refusals(HostDevice(), e->step)) == "");
    }
}

struct RefusingDevice final : HostDevice {
  std::string refusal(const Kernel&) const override { return "there is none"; }
};

TEST_CASE("what is not executed is refused before it starts, each reason once") {
  RunConfig run = training();
  run.offload_saved = true;
  run.offload_optimizer = true;
  const auto e = executable(small_model("mlp"), run, ampere());
  const std::vector<std::string> reasons = refusals(RecordingFake(), e->step);
  CHECK(reasons.size() == 2);
  const auto lstm = executable(small_zoo_model("lstm_lm", {}), training(), ampere());
  const std::vector<std::string> missing = refusals(RefusingDevice(), lstm->step);
  CHECK(std::ranges::count(missing, "aten::_cudnn_rnn of lstm: there is none") == 1);
  CHECK(std::ranges::count_if(missing, [](const std::string& r) { return r.starts_with("aten::zeros of "); }) == 1);
  CHECK(std::ranges::adjacent_find(missing) == missing.end());
}

}  // namespace
}  // namespace gpuplan
