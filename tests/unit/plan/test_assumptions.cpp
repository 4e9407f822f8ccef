// What a plan takes on trust is said, and what it says of fitting counts the margin.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "estimator/plan/plan.h"
#include "estimator/report/writers.h"
#include "layers/catalog.h"
#include "tests/support/test_spec.h"
#include "tests/support/zoo_models.h"
#include "tools/answers/planning.h"
#include "tools/options/run_options.h"

using namespace gpuplan;

namespace {

RunConfig two_samples() {
  RunConfig run;
  run.batch = 2;
  return run;
}

// The text of an assumption; "" where it is not among them.
std::string text_of(const Report& report, const std::string& id) {
  const auto found = std::ranges::find(report.assumptions, id, &Assumption::id);
  return found == report.assumptions.end() ? "" : found->text;
}

Report plan_text(const std::string& text, const RunConfig& run) {
  return plan(testing::read_spec(text), make_catalog(), run);
}

bool starts_line(const std::string& screen, const std::string& words) {
  return screen.find("\n  " + words + "\n") != std::string::npos;
}

}  // namespace

TEST_CASE("the header says which sequences were planned, and JSON why") {
  const std::string gpt2 = "configs/models/gpt2";
  const Report packed = plan_spec(gpt2, two_samples(), "", {{"packed", 1}});
  const Report not_packed = plan_spec(gpt2, two_samples(), "", {{"packed", 0}});
  CHECK(starts_line(report_text(packed, {}), "tokens packed · use_cache=False"));
  CHECK(starts_line(report_text(not_packed, {}), "tokens not packed · use_cache=False"));
  CHECK(testing::contains(report_md(not_packed), "sgd, tokens not packed, use_cache=False;"));
  // Trainer passes use_cache=False itself, and an inference has no gradients that would keep the copies.
  RunConfig other = two_samples();
  other.like = Like::trainer;
  CHECK_FALSE(testing::contains(report_text(plan_spec(gpt2, other, "", {{"packed", 0}}), {}), "use_cache"));
  other = two_samples();
  other.mode = Mode::infer;
  CHECK_FALSE(testing::contains(report_text(plan_spec(gpt2, other, "", {{"packed", 0}}), {}), "use_cache"));
  CHECK(testing::contains(text_of(packed, "packed"), "a row is several sequences"));
  CHECK(testing::contains(text_of(not_packed, "packed"), "a row is one sequence"));
  const std::string padded =
      "gpuplan: 1\nvars: {padded: 1}\ninput: {shape: [4]}\nlayers:\n  - Linear(4, 4)\nloss: mean\n";
  CHECK(starts_line(report_text(plan_text(padded, two_samples()), {}), "batch with padding"));
  std::string whole = padded;
  whole.replace(whole.find("padded: 1"), 9, "padded: 0");
  CHECK(starts_line(report_text(plan_text(whole, two_samples()), {}), "batch without padding"));
  CHECK_FALSE(testing::contains(report_text(plan_zoo("mlp", two_samples()), {}), "padding"));
}

TEST_CASE("a device, its context and NCCL's buffers are taken on trust") {
  RunConfig run = two_samples();
  const Report nameless = plan_zoo("mlp", run);
  CHECK(testing::contains(text_of(nameless, "gpu"), "no GPU is named: "));
  CHECK_EQ(text_of(nameless, "alone"), "");
  CHECK(testing::contains(text_of(nameless, "context"), "take 512 MiB, assumed"));
  const Report on_t4 = plan_zoo("mlp", run, "t4");
  CHECK_EQ(text_of(on_t4, "gpu"), "");
  CHECK(testing::contains(text_of(on_t4, "alone"), "nothing else, such as a display, uses the GPU's memory"));
  Strategy two;
  two.gpus = 2;
  two.data = DataParallel::ddp;
  run.batch = 4;
  const Report rank = report_of(make_plan(zoo_model("mlp"), make_catalog(), run, nullptr, two));
  CHECK(testing::contains(text_of(rank, "nccl"), "NCCL's buffers take 288 MiB, by the rules of NCCL 2.30.7's source"));
  CHECK(testing::contains(text_of(rank, "context"), "take 512 MiB, assumed"));
  run.context_bytes = 300 << 20;
  CHECK(testing::contains(text_of(plan_zoo("mlp", run), "context"), "take 300 MiB, as --runtime says"));
  RunOptions limit;
  limit.gpu = "24G";
  const std::optional<Gpu> gpu = load_gpu(limit);
  CHECK(testing::contains(text_of(plan(zoo_model("mlp"), make_catalog(), run, &*gpu), "gpu"), "named but a limit: "));
}

TEST_CASE("a model that is too large to search for changes says so") {
  const std::string many =
      "gpuplan: 1\ninput: {shape: [4]}\nblocks: {B: {layers: [ReLU()]}}\n"
      "layers:\n  - {name: l, block: B, repeat: 31300}\nloss: mean\n";
  RunConfig run = two_samples();
  run.mode = Mode::infer;
  RunOptions limit;
  limit.gpu = "24G";
  const Gpu gpu = *load_gpu(limit);
  const Report report = plan(testing::read_spec(many), make_catalog(), run, &gpu);
  CHECK(testing::contains(text_of(report, "search"), "31,300 layers are too many"));
  CHECK_EQ(text_of(plan(zoo_model("mlp"), make_catalog(), run, &gpu), "search"), "");
}

TEST_CASE("cuDNN's answers are taken on trust, where there are convolutions or recurrent layers") {
  RunConfig run = two_samples();
  // No recording has these sizes, which are odd on purpose.
  const std::string odd = "gpuplan: 1\ninput: {shape: [3, 37, 41]}\nlayers:\n  - Conv2d(3, 23, 5)\nloss: mean\n";
  CHECK(testing::contains(text_of(plan_text(odd, run), "cudnn_workspaces"),
                          "of 2 of 2 calls"));  // the input has no gradient
  run.scratch = Scratch::no_cudnn;
  CHECK_EQ(text_of(plan_text(odd, run), "cudnn_workspaces"), "");
  CHECK(testing::contains(text_of(plan_text(odd, run), "scratch"), "no workspace of cuDNN is counted"));
  run.scratch = Scratch::full;
  CHECK_EQ(text_of(plan_zoo("mlp", run), "cudnn_workspaces"), "");
  const std::string lstm =
      "gpuplan: 1\ninput: {shape: [5, 4]}\nlayers:\n  - LSTM(4, 8, batch_first=True)\nloss: mean\n";
  CHECK(testing::contains(text_of(plan_text(lstm, run), "recurrent"), "cuDNN 9"));
  run.precision = DType::bf16;
  const char* const slow = "without cuDNN, one sample at a time";
  CHECK(testing::contains(text_of(plan_zoo("resnet18", run, "t4"), "slow_convolutions"), slow));
  CHECK_EQ(text_of(plan_zoo("resnet18", run, "a100-40gb"), "slow_convolutions"), "");
  run.precision = DType::fp32;
  CHECK_EQ(text_of(plan_zoo("resnet18", run, "t4"), "slow_convolutions"), "");
  run.pytorch = 211;
  CHECK(testing::contains(text_of(plan_zoo("mlp", run), "pytorch"), "nothing was recorded with PyTorch 2.11"));
}

TEST_CASE("a loss that the spec does not have is said on the first screen") {
  const std::string spec = "gpuplan: 1\ninput: {shape: [4]}\nlayers:\n  - Linear(4, 4)\n";
  const Report without = plan_text(spec, two_samples()), with = plan_text(spec + "loss: mean\n", two_samples());
  CHECK(starts_line(report_text(without, {}), "CrossEntropyLoss assumed"));
  CHECK(testing::contains(text_of(without, "loss"), "CrossEntropyLoss() of the model's output"));
  CHECK_EQ(text_of(with, "loss"), "");
}

TEST_CASE("a step fits what the margin leaves, and JSON says so") {
  Gpu t4 = *gpu_called("t4");
  const std::int64_t needs = plan_zoo("mlp", two_samples(), "t4").peak.device_bytes;
  t4.cuda_total_bytes = 2 * needs;
  RunOptions options;
  const auto json_of = [&](const std::string& margin) {
    options.margin = margin;
    std::optional<Gpu> gpu = t4;
    const Margin taken = take_margin(options, gpu);
    Report report = plan(zoo_model("mlp"), make_catalog(), two_samples(), &*gpu);
    report.margin = taken;
    return nlohmann::json::parse(report_json(report, "0.1.0"));
  };
  nlohmann::json json = json_of("");
  CHECK_EQ(json["fits"], true);
  CHECK_EQ(json["usable_bytes"], 2 * needs);
  CHECK_EQ(json["limit_bytes"], 2 * needs);
  CHECK_EQ(json["margin"], 0.0);
  json = json_of("50%");
  CHECK_EQ(json["fits"], true);
  CHECK_EQ(json["usable_bytes"], 2 * needs);
  CHECK_EQ(json["limit_bytes"], needs);
  json = json_of("50.01 %");
  CHECK_EQ(json["fits"], false);
  CHECK_LT(json["limit_bytes"], needs);
  CHECK_EQ(json["margin"], 0.5001);
  json = nlohmann::json::parse(report_json(plan_zoo("mlp", two_samples()), "0.1.0"));
  for (const char* key : {"fits", "usable_bytes", "limit_bytes"}) CHECK(json[key].is_null());
  CHECK_FALSE(json["assumptions"].empty());
  std::optional<Gpu> none;
  options.margin = "5%";
  CHECK_THROWS_WITH_AS(take_margin(options, none), "--margin needs a GPU", Error);
}

TEST_CASE("bitsandbytes' rules with a release that it does not run with are announced") {
  RunConfig run = two_samples();
  run.optimizer.kind = OptimizerKind::none;
  run.optimizer.bitsandbytes = BitsandbytesOptimizer{};
  const auto warned = [&run] {
    const std::vector<std::string> warnings = plan_zoo("mlp", run).warnings;
    return std::ranges::any_of(warnings, [](const std::string& w) { return testing::contains(w, "PyTorch 2.4"); });
  };
  run.pytorch = 203;
  CHECK(warned());
  run.pytorch = 204;
  CHECK_FALSE(warned());
  run.pytorch = 203;
  run.optimizer.bitsandbytes.reset();
  CHECK_FALSE(warned());
}
