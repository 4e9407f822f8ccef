// Constant(): a tensor that the model's code makes in its first call and keeps.
#include <doctest/doctest.h>

#include <algorithm>

#include "estimator/plan/plan.h"
#include "layers/catalog.h"
#include "tests/support/test_spec.h"

using namespace gpuplan;
using namespace gpuplan::testing;

namespace {

const PhaseRow& row(const Report& report, bool steady, Phase phase) {
  return *std::ranges::find_if(report.phases,
                               [&](const PhaseRow& r) { return r.steady == steady && r.phase == phase; });
}

}  // namespace

// LeViT's attention_bias_cache (timm/models/levit.py), which inference fills once.
TEST_CASE("a constant is there from the first step's operation on that reads it") {
  const Model model = read_spec(
      "gpuplan: 1\ninput: {shape: [1024]}\nlayers:\n"
      "  - a: ReLU()\n"
      "  - table: Constant(1024)\n"
      "  - {name: unread, op: Constant(1024)}\n"
      "  - {op: Add(), from: [a, table]}\n");
  RunConfig run;
  run.mode = Mode::infer;
  run.batch = 1;
  run.loop = Loop::function;
  const Report report = plan(model, make_catalog(), run);
  const std::int64_t input = 4096, table = 4096, output = 4096;
  CHECK(row(report, false, Phase::start).live.requested_bytes == input);
  CHECK(row(report, false, Phase::forward).live.requested_bytes == input + table + output);
  CHECK(row(report, true, Phase::start).live.requested_bytes == input + table);
  CHECK(row(report, true, Phase::forward).live.requested_bytes == input + table + output);
}

// What a plan says of tensors alone, without an allocator, has the constants where the loop has them.
TEST_CASE("the live bytes of a first step have a constant from its first read on") {
  const Model model = read_spec(
      "gpuplan: 1\ninput: {shape: [1024]}\nlayers:\n"
      "  - a: Linear(1024, 1024, bias=False)\n"
      "  - table: Constant(1024)\n"
      "  - {op: Add(), from: [a, table]}\n"
      "loss: mean\n");
  const auto live = [&](bool first_step) {
    RunConfig run;
    run.batch = 1;
    run.loop = Loop::function;
    run.first_step = first_step;
    const Gpu gpu = assumed_gpu();
    return make_plan(model, make_catalog(), run, &gpu).live_bytes;
  };
  const LiveBytes first = live(true), steady = live(false);
  CHECK(first.after_model == 1024 * 1024 * 4);
  CHECK(steady.after_model == first.after_model);
  CHECK((first.forward_end - first.start) - (steady.forward_end - steady.start) == 4096);
}
