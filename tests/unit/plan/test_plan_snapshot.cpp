// A plan as a snapshot: what is read of it again is what the plan says.
#include "estimator/plan/plan_snapshot.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "estimator/allocator/replay.h"
#include "estimator/device/read_gpu.h"
#include "estimator/snapshot/snapshot_report.h"
#include "estimator/snapshot/snapshot_trace.h"
#include "estimator/snapshot/write_snapshot.h"
#include "estimator/time/step_time.h"
#include "layers/catalog.h"
#include "tests/support/zoo_models.h"
#include "tools/process/read_source.h"

using namespace gpuplan;

namespace {

Snapshot again(const Snapshot& snapshot) {
  const std::string text = snapshot_pickle(snapshot);
  std::string_view left = text;
  return read_snapshot(snapshot.name, [&](char* to, std::size_t most) {
    const std::size_t bytes = left.copy(to, most);
    left.remove_prefix(bytes);
    return bytes;
  });
}

void check_snapshot(const Model& model, const RunConfig& run) {
  const Plan plan = make_plan(model, make_catalog(), run);
  const Snapshot snapshot = again(snapshot_of(plan));
  const SnapshotReport report = report_of(snapshot, 0, lines_of(snapshot));
  const SnapshotHistory& history = report.history;
  CHECK(history.whole);
  CHECK(history.adds_up);
  Reading peak;
  std::int64_t first = 0, steady = 0;  // the plan has no phases of the second step
  for (const PhaseRow& row : plan.replay.phases) {
    std::int64_t& allocated = row.steady ? steady : first;
    allocated = std::max(allocated, row.peak.allocated_bytes);
    peak.requested_bytes = std::max(peak.requested_bytes, row.peak.requested_bytes);
    peak.reserved_bytes = std::max(peak.reserved_bytes, row.peak.reserved_bytes);
  }
  REQUIRE_EQ(report.steps.size(), 3);
  CHECK_EQ(report.steps[0].peak_bytes, first);
  CHECK_EQ(report.steps[2].peak_bytes, steady);
  CHECK_EQ(history.peak.requested_bytes, peak.requested_bytes);
  CHECK_EQ(history.peak.reserved_bytes, peak.reserved_bytes);
  if (run.alloc_conf.empty()) CHECK_EQ(report.segments, plan.replay.segments);
  CHECK_EQ(report.inactive_bytes, plan.replay.inactive_split_bytes);
  const ReplayReport replayed = replay(trace_of(snapshot, 0), parse_alloc_conf(run.alloc_conf), true);
  CHECK_FALSE(replayed.difference);
}

}  // namespace

TEST_CASE("a plan's snapshot has the plan's peaks, segments and addresses") {
  for (const char* name : {"resnet50", "gpt2", "bert_base", "mlp"}) {
    CAPTURE(name);
    const Model model = zoo_model(name);
    RunConfig run;
    run.batch = 4;
    run.optimizer.kind = OptimizerKind::adam;
    check_snapshot(model, run);
    run.alloc_conf = "expandable_segments:True";
    check_snapshot(model, run);
    run.alloc_conf = "";
    run.micro_batches = 2;
    check_snapshot(model, run);
  }
}

TEST_CASE("other allocators have no snapshot") {
  RunConfig run;
  run.batch = 8;
  run.allocator = AllocatorKind::exact;
  const Model model = zoo_model("mlp");
  const Plan plan = make_plan(model, make_catalog(), run);
  CHECK_THROWS_AS(snapshot_of(plan), Error);
}

TEST_CASE("a plan's operations take what its step is modelled to take") {
  const Model model = zoo_model("resnet50");
  RunConfig run;
  run.batch = 32;
  const Gpu gpu = read_gpu(*read_file_source(std::string(GPUPLAN_SOURCE_DIR) + "/configs/gpus/a100-80gb.yaml"));
  const Plan plan = make_plan(model, make_catalog(), run, &gpu, {}, true);
  const std::optional<ModelledTimes> times = modelled_times(plan.step, HostCopy::pinned);
  REQUIRE(times);
  const TimedSnapshot timed = timed_snapshot_of(plan, *times);
  double end = 0;
  std::int64_t on_gpu = 0;
  for (const TimedOperation& o : timed.operations) {
    CHECK_GE(o.begin_seconds, 0);
    end = std::max(end, o.begin_seconds + o.seconds);
    on_gpu += o.on_gpu ? 1 : 0;
  }
  // Three steps; a step's own time has what the host waits for at its end besides.
  const double step = step_time(plan.step)->seconds();
  CHECK(end == doctest::Approx(3 * step).epsilon(0.05));
  CHECK_EQ(on_gpu * 2, static_cast<std::int64_t>(timed.operations.size()));
  // The same events as without times, in the same order.
  const Snapshot plain = snapshot_of(plan);
  REQUIRE_EQ(plain.events.size(), timed.snapshot.events.size());
  for (std::size_t i = 1; i < plain.events.size(); ++i) {
    CHECK_EQ(plain.events[i].bytes, timed.snapshot.events[i].bytes);
    CHECK_LE(timed.snapshot.events[i - 1].microseconds, timed.snapshot.events[i].microseconds);
  }
}

TEST_CASE("gradients that are zeroed before backward are alive in the forward") {
  const Model model = zoo_model("mlp");
  RunConfig run;
  run.batch = 8;
  const auto forward_peak = [&](ZeroGrad when) {
    run.zero_grad = when;
    const Plan plan = make_plan(model, make_catalog(), run);
    for (const PhaseRow& row : plan.replay.phases)
      if (row.steady && row.phase == Phase::forward) return row.peak.requested_bytes;
    return std::int64_t{0};
  };
  std::int64_t parameters = 0;  // a gradient has the bytes of its parameter
  const Plan plan = make_plan(model, make_catalog(), run);
  for (const ParameterTensor& p : plan.step.graph.parameters)
    parameters += plan.step.graph.tensor(p.tensor).shape.elements() * 4;
  CHECK_EQ(forward_peak(ZeroGrad::backward) - forward_peak(ZeroGrad::forward), parameters);
}
