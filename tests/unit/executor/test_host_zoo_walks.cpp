// Executions of what the models of test_host_execution.cpp do not have: other operations of the zoo, small. With every
// freed block poisoned, three training steps give bit for bit what they give where nothing is freed.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

#include "estimator/spec/read.h"
#include "tests/host_device/executed.h"
#include "tests/host_device/host_device.h"
#include "tests/host_device/small_models.h"

namespace gpuplan {
namespace {

constexpr const char* kImages = R"yaml(gpuplan: 1
name: images
input: {shape: [4, 6, 6]}
layers:
  - Conv2d(4, 8, 3, padding=1)
  - GroupNorm(2, 8)
  - ELU(inplace=True)
  - residual:
      body:
        - InstanceNorm2d(8, affine=True)
        - Conv2d(8, 8, 1)
        - StochasticDepth(0.3, "row")
  - AvgPool2d(3, stride=2, padding=1, count_include_pad=False)
  - Dropout2d(0.3)
  - Pad([1, 0, 0, 1])
  - Roll([-1, 2], [2, 3])
  - ELU()
  - Upsample(scale_factor=2)
  - Interpolate(size=[5, 7], mode="bilinear", align_corners=True)
  - Conv2d(8, 2, 1)
)yaml";

constexpr const char* kWindows = R"yaml(gpuplan: 1
name: windows
input: {shape: [3, 5, 8]}
layers:
  - Conv2d(3, 4, 1)
  - Permute(0, 2, 3, 1)
  - residual:
      body: [LayerNorm(4), "ShiftedWindowAttention(4, [2, 2], [1, 1], num_heads=2)"]
  - PatchMerge()
  - Linear(16, 4)
  - Flatten(1)
  - Linear(48, 3)
loss: CrossEntropyLoss()
)yaml";

constexpr const char* kRecurrent = R"yaml(gpuplan: 1
name: recurrent
input: {shape: [4, 3]}
layers:
  - lstm: LSTM(3, 4, num_layers=2, dropout=0.3, batch_first=True, bidirectional=True)
  - gru: {op: "GRU(8, 3, bias=False, batch_first=True)", from: lstm
}
  - rnn: RNN(3, 2, batch_first=True)
  - Flatten(1)
  - Linear(8, 3)
loss: CrossEntropyLoss()
)yaml";

Model inlined(const std::string& text) { return read_model(std::make_shared<Source>(Source{"small.yaml", text})); }

void check_sufficient(Model model, const RunConfig& run, const Gpu& gpu) {
  const auto e = executable(std::move(model), run, gpu);
  CAPTURE(e->step.graph.model);
  std::string missing;
  for (const std::string& reason : refusals(HostDevice(), e->step)) missing += reason + "\n";
  REQUIRE(missing == "");
  const ExecutionResult kept = executed(*e, true), freed = executed(*e, false);
  REQUIRE(freed.losses.size() == 3);
  for (const double loss : freed.losses) CHECK(std::isfinite(loss));
  if (run.precision == DType::fp32) CHECK(freed.losses[0] != freed.losses[2]);
  CHECK(freed.losses == kept.losses);
  CHECK(freed.weights == kept.weights);
  CHECK(freed.gradients == kept.gradients);
}

RunConfig training() {
  RunConfig run;
  run.batch = 2;
  return run;
}

TEST_CASE("no model of the zoo has an operation that the host device lacks") {
  std::string missing;
  int models = 0;
  for (const auto& file : std::filesystem::directory_iterator(GPUPLAN_SOURCE_DIR "/configs/models")) {
    if (file.path().extension() != ".yaml") continue;
    if (file.path().stem() == "gpt_oss_20b") continue;  // its attention and its experts are an export's operations
    ++models;
    for (const PyTorchVersion version : {kNewestPyTorch, 204}) {
      RunConfig run = training();
      run.pytorch = version;
      const auto e = executable(small_zoo_model(file.path().stem().string(), {}), run, ampere());
      for (const std::string& reason : refusals(HostDevice(), e->step))
        missing += file.path().stem().string() + ": " + reason + "\n";
    }
  }
  CHECK(models >= 50);
  CHECK(missing == "");
}

TEST_CASE("images of other sizes and their losses") {
  for (const char* loss : {"MSELoss()", "L1Loss()", "HuberLoss(delta=0.5)", "SmoothL1Loss(beta=0.5)",
                           "BCEWithLogitsLoss(reduction=\"sum\")"})
    check_sufficient(inlined(std::string(kImages) + "loss: " + loss + "\n"), training(), ampere());
  RunConfig run = training();
  run.layout = MemoryFormat::channels_last;
  check_sufficient(inlined(std::string(kImages) + "loss: MSELoss()\n"), run, ampere());
}

TEST_CASE("windows that are rolled and masked") { check_sufficient(inlined(kWindows), training(), ampere()); }

TEST_CASE("recurrent layers") {
  check_sufficient(inlined(kRecurrent), training(), ampere());
  RunConfig run = training();
  run.precision = DType::bf16;  // whose weights are packed for cuDNN in each call
  check_sufficient(inlined(kRecurrent), run, hopper());
}

TEST_CASE("language models with positions, biases and experts of their own") {
  const RunConfig run = training();
  check_sufficient(small_zoo_model("lstm_lm", {{"seq", 4}, {"vocabulary", 11}, {"hidden", 8}}), run, ampere());
  check_sufficient(small_zoo_model("t5_small", {{"seq", 5},
                                                {"target", 4},
                                                {"vocabulary", 13},
                                                {"hidden", 16},
                                                {"inner", 12},
                                                {"heads", 2},
                                                {"head", 8},
                                                {"buckets", 8}}),
                   run, ampere());
  check_sufficient(small_zoo_model("opt_125m", {{"seq", 5},
                                                {"vocabulary", 17},
                                                {"positions", 8},
                                                {"hidden", 16},
                                                {"inner", 12},
                                                {"heads", 2},
                                                {"layers", 1}}),
                   run, ampere());
  check_sufficient(small_zoo_model("roberta_large", {{"seq", 5},
                                                     {"vocabulary", 17},
                                                     {"positions", 8},
                                                     {"hidden", 16},
                                                     {"inner", 12},
                                                     {"heads", 2},
                                                     {"layers", 1}}),
                   run, ampere());
  check_sufficient(small_zoo_model("mixtral_8x7b", {{"seq", 5},
                                                    {"vocabulary", 17},
                                                    {"hidden", 16},
                                                    {"inner", 12},
                                                    {"layers", 1},
                                                    {"heads", 2},
                                                    {"kv_heads", 1},
                                                    {"head", 8},
                                                    {"experts", 3},
                                                    {"top_k", 2}}),
                   run, ampere());
}

TEST_CASE("masks and rotations of transformers 4, and attention without a kernel of its own") {
  RunConfig old = training(), math = training();
  old.pytorch = 204;
  math.attention = Attention::math;
  for (const char* name : {"bert", "llama", "gpt2"}) check_sufficient(small_model(name), old, ampere());
  for (const char* name : {"bert", "llama", "gpt2"}) check_sufficient(small_model(name), math, ampere());
}

}  // namespace
}  // namespace gpuplan
