// Language models of recurrent layers, and reductions as losses under autocast: the allocated peak of every phase of a
// steady step. Expected: torch 2.15's own operators and allocator under `gpuplan shadow`
// (tests/recorders/recurrent_layers.py; for reductions tests/shadow_recorded/steps.py with SGD, `--loop function`),
// where cuDNN's sizes are those of cudnn_rnn.h.
#include <doctest/doctest.h>

#include <array>
#include <optional>

#include "layers/catalog.h"
#include "tests/support/test_spec.h"
#include "tests/support/zoo_models.h"

namespace gpuplan {
namespace {

using Peaks = std::array<std::int64_t, 4>;  // of forward, loss, backward and optimizer, bytes

Peaks steady_peaks(const Report& report) {
  Peaks peaks{};
  for (const PhaseRow& row : report.phases) {
    if (!row.steady) continue;
    constexpr std::array kPhases{Phase::forward, Phase::loss, Phase::backward, Phase::optimizer};
    for (std::size_t i = 0; i < kPhases.size(); ++i)
      if (row.phase == kPhases[i]) peaks[i] = row.peak.allocated_bytes;
  }
  return peaks;
}

RunConfig run_of(std::int64_t batch, OptimizerKind optimizer, std::optional<DType> autocast) {
  RunConfig run;
  run.batch = batch;
  run.optimizer.kind = optimizer;
  run.autocast = autocast;
  run.loop = Loop::function;
  return run;
}

struct OnGpu {
  const char* gpu;
  std::optional<DType> autocast;
  Peaks expected;
};
const OnGpu kLanguageModel[] = {
    {"h200", {}, {228719104, 221101568, 277240832, 235602432}},
    {"a100-80gb", {}, {202889728, 219667968, 275668480, 235602432}},
    {"t4", {}, {200864256, 215834112, 271834624, 231768576}},
    {"h200", DType::fp16, {221115904, 228846080, 256827392, 236619776}},
    {"a100-80gb", DType::bf16, {195863040, 227911168, 255891456, 237404672}},
    {"t4", DType::fp16, {190576128, 223341056, 251322368, 232237056}},
};

struct OfLayer {
  const char* call;
  int vocabulary, tokens, batch, results;
  DType precision;
  std::optional<DType> autocast;
  Peaks expected;  // on an A100
};
const char* const kGru = "GRU(64, 128, num_layers=2, batch_first=True, bidirectional=True, dropout=0.2)";
const OfLayer kLayers[] = {
    {kGru, 1000, 40, 8, 256, DType::fp32, {}, {57064960, 22106624, 61581824, 20642816}},
    {kGru, 1000, 40, 8, 256, DType::fp32, DType::fp16, {53565952, 21005824, 56241152, 20644352}},
    {kGru, 1000, 40, 8, 256, DType::bf16, {}, {48873984, 14618112, 51132928, 12986368}},
    {"RNN(100, 300, 3, batch_first=True)", 500, 24, 16, 300, DType::fp64, {}, {33319424, 27119616, 39373824, 27646976}},
    {"LSTM(96, 200, 2, bidirectional=True, proj_size=48)",
     700,
     30,
     12,
     96,
     DType::fp32,
     {},
     {56847872, 17879552, 60547072, 12830720}},
    {"LSTM(192, 160, 3, bias=False, dropout=0.5)",
     500,
     64,
     5,
     160,
     DType::fp32,
     {},
     {24746496, 20537856, 31500288, 21556736}},
    {"LSTM(96, 200, 2, bias=False, proj_size=48, dropout=0.3)",
     700,
     30,
     12,
     48,
     DType::fp32,
     DType::fp16,
     {13411840, 13676032, 21288960, 11585536}},
    {"LSTM(128, 384, batch_first=True)", 500, 64, 32, 384, DType::fp16, {}, {44979200, 22812672, 51613696, 11708928}},
    {"LSTM(256, 256, batch_first=True)", 500, 64, 32, 256, DType::bf16, {}, {30146560, 18301440, 35635200, 8344064}},
};

struct Summed {
  bool rows;
  const char* loss;
  std::optional<DType> autocast;
  Peaks expected;  // on an A100
};
const Summed kSums[] = {
    {false, "sum", DType::bf16, {8135680, 7088640, 17701888, 7352832}},
    {false, "sum", DType::fp16, {8136704, 7089664, 17703424, 7353856}},
    {false, "mean", DType::bf16, {8135680, 7088640, 17701888, 7352832}},
    {true, "mean", DType::bf16, {8135680, 6565376, 17179648, 6830592}},
    {true, "sum", DType::fp16, {8136704, 6566400, 17181184, 6831616}},
};

}  // namespace

TEST_CASE("a language model of LSTMs peaks where PyTorch does, on each GPU") {
  for (const OnGpu& c : kLanguageModel) {
    CAPTURE(c.gpu);
    CHECK(steady_peaks(plan_zoo("lstm_lm", run_of(20, OptimizerKind::adamw, c.autocast), c.gpu)) == c.expected);
  }
}

TEST_CASE("recurrent layers peak where PyTorch's do: cells, directions, projections, types") {
  for (const OfLayer& c : kLayers) {
    CAPTURE(c.call);
    RunConfig run = run_of(c.batch, OptimizerKind::adamw, c.autocast);
    run.precision = c.precision;
    const std::string features = std::string(c.call).substr(std::string(c.call).find('(') + 1);
    const std::string spec = "gpuplan: 1\ninputs:\n  ids: {shape: [" + std::to_string(c.tokens) +
                             "], dtype: int64}\nlayers:\n  - Embedding(" + std::to_string(c.vocabulary) + ", " +
                             features.substr(0, features.find(',')) + ")\n  - " + c.call + "\n  - Linear(" +
                             std::to_string(c.results) + ", " + std::to_string(c.vocabulary) +
                             ")\n  - Flatten(0, 1)\nloss: CrossEntropyLoss()\n";
    CHECK(steady_peaks(plan(testing::read_spec(spec), make_catalog(), run)) == c.expected);
  }
}

TEST_CASE("autocast runs sum in fp32 and leaves mean in the half type") {
  for (const Summed& c : kSums) {
    CAPTURE(c.loss);
    CAPTURE(c.rows);
    const std::string spec = std::string("gpuplan: 1\ninput: {shape: [256]}\nlayers:\n  - Linear(256, 1024)\n") +
                             "  - ReLU()\n  - Linear(1024, 512)\n" + (c.rows ? "  - Sum(1, keepdim=True)\n" : "") +
                             "loss: " + c.loss + "()\n";
    const RunConfig run = run_of(512, OptimizerKind::sgd, c.autocast);
    CHECK(steady_peaks(plan(testing::read_spec(spec), make_catalog(), run)) == c.expected);
  }
}

}  // namespace gpuplan
