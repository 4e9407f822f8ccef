// What makes a step faster: every gain is that of the changed step, planned and timed again.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "estimator/graph/build.h"
#include "estimator/plan/plan.h"
#include "estimator/report/advice_text.h"
#include "estimator/report/writers.h"
#include "estimator/search/aligned_sizes.h"
#include "estimator/search/speed_advice.h"
#include "estimator/time/operation_time.h"
#include "layers/catalog.h"
#include "tests/support/json_schema.h"
#include "tests/support/model_time.h"
#include "tests/support/report_example.h"
#include "tests/support/test_spec.h"
#include "tests/support/zoo_models.h"
#include "tests/times/time_cases.h"

namespace gpuplan {
namespace {

using testing::contains;

RunConfig training(std::int64_t batch) {
  RunConfig run;
  run.batch = batch;
  run.optimizer.kind = OptimizerKind::adam;
  return run;
}

std::vector<Advice> advice_on(const Model& model, const RunConfig& run, const Gpu& gpu) {
  const Plan plan = make_plan(model, make_catalog(), run, &gpu, {}, true);
  const auto now = step_time(plan.step, HostCopy::none);
  REQUIRE(now);
  return speed_advice(plan, make_catalog(), HostCopy::none, *now);
}

const Advice* find(const std::vector<Advice>& advice, Advice::Kind kind) {
  const auto at = std::ranges::find(advice, kind, &Advice::kind);
  return at == advice.end() ? nullptr : &*at;
}

// Linear(512, N) on 2,048 rows and back: large enough for a GPU, and nothing but products of note.
Model wide(const std::string& classes) {
  return testing::read_spec(
      "gpuplan: 1\nvars: {classes: " + classes +
      "}\ninput: {shape: [512, 4096]}\nlayers:\n  - Linear(4096, $classes, bias=False)\nloss: mean\n");
}

std::vector<UnalignedSize> sizes_of(const Model& model, const RunConfig& run) {
  const Graph graph = build_graph(model, make_catalog(), run, assumed_gpu());
  return unaligned_sizes(make_micro_batch_schedules(graph, run, assumed_gpu()));
}

}  // namespace

TEST_CASE("rows of factors are aligned where they begin at multiples of 16 bytes") {
  RunConfig run = training(4);
  run.precision = DType::bf16;
  CHECK(sizes_of(wide("4096"), run).empty());
  CHECK(sizes_of(wide("1000"), run).empty());  // 8 * 125 elements of 2 bytes
  const std::vector<UnalignedSize> odd = sizes_of(wide("1001"), run);
  REQUIRE_EQ(odd.size(), 1);
  CHECK_EQ(odd[0].size, 1001);
  CHECK_EQ(odd[0].dtype, DType::bf16);
  // Forward reads rows of 4,096 only; the gradient of the output is a factor of the weight's gradient. The input needs
  // none.
  CHECK_EQ(odd[0].flops, 2LL * 4 * 512 * 4096 * 1001);
  run.precision = DType::fp32;  // 4 elements are 16 bytes
  CHECK(sizes_of(wide("1004"), run).empty());
  CHECK_EQ(sizes_of(wide("1002"), run).size(), 1);
}

TEST_CASE("a product with unaligned rows takes longer where tensor cores are faster than its loads, and nowhere else") {
  const TimeModel model;
  const Gemm gemm{.batch = 1, .m = 4096, .n = 4096, .k = 4096, .bias_epilogue = false, .dtype = DType::bf16};
  Work work{2LL * 4096 * 4096 * 4096, 0, 3LL * 4096 * 4096 * 2, DType::bf16, false, true};
  const auto ratio = [&](const char* gpu) {
    const Processor on = make_processor(measured_gpu(gpu), model);
    work.aligned = true;
    const double aligned = operation_time(gemm, work, on).compute_seconds;
    work.aligned = false;
    return aligned / operation_time(gemm, work, on).compute_seconds;
  };
  // A100: 1,024 multiply-adds a clock and SM; its 19.5 TFLOP/s in fp32 are 64.
  CHECK_EQ(ratio("a100-40gb"), doctest::Approx(19.5e12 * model.unaligned_multiply_adds / 64 / 312e12));
  CHECK_LT(ratio("h100"), 0.3);                           // 2,048
  CHECK_EQ(ratio("rtx4090"), doctest::Approx(1));         // 256, accumulated in fp32
  CHECK_EQ(ratio("v100-sxm2-16gb"), doctest::Approx(1));  // bf16 is computed in fp32 there
}

TEST_CASE("a vocabulary that is no multiple of eight is better padded, and the gain is the changed step's") {
  const Gpu& gpu = measured_gpu("h100");
  const Model gpt2 = zoo_model("gpt2_s256");
  RunConfig run = training(16);
  run.autocast = DType::bf16;
  const std::vector<Advice> advice = advice_on(gpt2, run, gpu);
  const Advice* shape = find(advice, Advice::Kind::shape);
  REQUIRE(shape != nullptr);
  CHECK(contains(shape->change, "--set "));
  CHECK(contains(shape->change, "=502"));  // 50,264 or 50,304
  CHECK(contains(shape->reason, "50257"));
  const std::int64_t size = std::stoll(shape->change.substr(shape->change.find('=') + 1));
  const std::string name = shape->change.substr(6, shape->change.find('=') - 6);
  const Model padded = model_in_file("configs/models/gpt2_s256", {{name, size}});
  const auto now = step_time(gpt2, make_catalog(), run, gpu, HostCopy::none);
  const auto then = step_time(padded, make_catalog(), run, gpu, HostCopy::none);
  CHECK_EQ(shape->step_seconds, doctest::Approx(then->seconds()));
  CHECK_EQ(shape->gain, doctest::Approx(now->seconds() / then->seconds()));
  CHECK_GT(shape->gain, 1.01);
  CHECK_EQ(shape->device_bytes, plan(padded, make_catalog(), run, &gpu).peak.device_bytes);
}

TEST_CASE("no size is advised where no tensor core multiplies its rows") {
  RunConfig run = training(16);
  const Model gpt2 = zoo_model("gpt2_s256");
  CHECK(find(advice_on(gpt2, run, measured_gpu("a100-40gb")), Advice::Kind::shape) == nullptr);  // fp32
  run.precision = DType::fp16;
  CHECK(find(advice_on(gpt2, run, measured_gpu("gtx1080ti")), Advice::Kind::shape) == nullptr);
  CHECK(find(advice_on(gpt2, run, measured_gpu("a100-40gb")), Advice::Kind::shape) != nullptr);
}

TEST_CASE("a half type is advised where tensor cores have it, and nothing where there are none") {
  const Model model = zoo_model("resnet50");
  const std::vector<Advice> a100 = advice_on(model, training(64), measured_gpu("a100-40gb"));
  REQUIRE(find(a100, Advice::Kind::precision) != nullptr);
  CHECK_EQ(find(a100, Advice::Kind::precision)->change, "--amp bf16");
  RunConfig half = training(64);
  half.autocast = DType::bf16;
  const auto now = step_time(model, make_catalog(), training(64), measured_gpu("a100-40gb"), HostCopy::none);
  const auto then = step_time(model, make_catalog(), half, measured_gpu("a100-40gb"), HostCopy::none);
  CHECK_EQ(find(a100, Advice::Kind::precision)->gain, doctest::Approx(now->seconds() / then->seconds()));
  const std::vector<Advice> v100 = advice_on(model, training(64), measured_gpu("v100-sxm2-16gb"));
  CHECK_EQ(find(v100, Advice::Kind::precision)->change, "--amp fp16");
  CHECK(find(advice_on(model, training(16), measured_gpu("gtx1080ti")), Advice::Kind::precision) == nullptr);
  CHECK(find(advice_on(model, half, measured_gpu("a100-40gb")), Advice::Kind::precision) == nullptr);
}

TEST_CASE("TF32 is advised where products of fp32 are most of a step") {
  const std::vector<Advice> advice = advice_on(wide("4096"), training(64), measured_gpu("a100-40gb"));
  const auto tf32 = std::ranges::find(advice, "--precision tf32", &Advice::change);
  REQUIRE(tf32 != advice.end());
  CHECK_GT(tf32->gain, 2);  // 156 beside 19.5 TFLOP/s
}

TEST_CASE("a batch that is too small for the host is better doubled; what then does not fit says so") {
  const std::vector<Advice> advice = advice_on(zoo_model("resnet18"), training(2), measured_gpu("a100-40gb"));
  const Advice* batch = find(advice, Advice::Kind::batch);
  REQUIRE(batch != nullptr);
  CHECK_EQ(batch->change, "--batch 4");
  CHECK_GT(batch->gain, 1.1);
  CHECK(batch->fits);
  CHECK(std::ranges::is_sorted(advice, std::ranges::greater{}, &Advice::gain));
}

TEST_CASE("a size is replaced in every argument and variable, whatever it is nested in") {
  const Model model = testing::read_spec(
      "gpuplan: 1\nvars: {wide: 100}\ninput: {shape: [100]}\nlayers:\n"
      "  - residual: {body: [\"Linear(100, $wide)\", ReLU()]}\n"
      "  - parallel: {branches: [[\"Linear(100, 100)\"], [\"Linear(100, 3)\"]], join: cat}\n");
  const Model changed = with_size(model, 100, 104);
  CHECK_EQ(changed.vars.front().value, 104);
  const auto& residual = std::get<Residual>(changed.layers[0].what);
  const auto& linear = std::get<LayerCall>(residual.body[0].what);
  CHECK_EQ(std::get<std::int64_t>(linear.arguments[0].value.as), 104);
  const auto& branch = std::get<Parallel>(changed.layers[1].what).branches[1];
  CHECK_EQ(std::get<std::int64_t>(std::get<LayerCall>(branch.body[0].what).arguments[1].value.as), 3);
  CHECK_EQ(size_change(model, 100, 104), "--set wide=104");
  CHECK_EQ(size_change(model, 99, 104), "104 instead of 99");
}

TEST_CASE("advice as printed, and in JSON") {
  Report report = tests::example_report();
  report.advice = std::vector<Advice>{
      {Advice::Kind::precision, "--amp bf16", "half as much is moved", 0.0123, 1.516, std::int64_t{3} << 30, true},
      {Advice::Kind::batch, "--batch 4", "the host", 0.05, 1.1, std::int64_t{90} << 30, false}};
  const std::string text = advice_text(report, {});
  CHECK(contains(text, "--amp bf16  12.3 ms      1.52x  3.00 GiB  half as much is moved"));
  CHECK(contains(text, "the host; does not fit"));
  CHECK(contains(advice_md(report), "| --amp bf16 |"));
  const std::string json = report_json(report, "1");
  CHECK(contains(json, "\"kind\": \"precision\""));
  CHECK(contains(json, "\"gain\": 1.516"));
  tests::check_against(nlohmann::json::parse(plan_json_schema()), nlohmann::json::parse(json), "plan");
  report.advice->clear();
  CHECK(contains(advice_text(report, {}), "no change of precision, layout, sizes or batch was found to be faster"));
  CHECK_EQ(advice_md(report), "");
  report.advice.reset();
  CHECK_FALSE(contains(report_json(report, "1"), "advice"));
}

}  // namespace gpuplan
