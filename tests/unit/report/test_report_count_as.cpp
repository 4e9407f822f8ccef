#include <doctest/doctest.h>

#include "estimator/report/count_as.h"
#include "tests/support/report_example.h"

using namespace gpuplan;
using gpuplan::tests::layer_row;

namespace {

// What each tool printed for one module in eval mode at batch 1, recorded with torch 1.13.1 on a CPU (fvcore 3378afe,
// ptflops d612c75 with count_functional=False, thop 43c064a, torchinfo 5c4164f, DeepSpeed 38327e0, FlopCounterMode).
struct Recorded {
  std::int64_t fvcore, ptflops, thop, torchinfo, deepspeed, torch;
};

void check(const LayerRow& row, const Recorded& printed) {
  CHECK_EQ(count_as(CountingTool::fvcore, row), printed.fvcore);
  CHECK_EQ(count_as(CountingTool::ptflops, row), printed.ptflops);
  CHECK_EQ(count_as(CountingTool::thop, row), printed.thop);
  CHECK_EQ(count_as(CountingTool::torchinfo, row), printed.torchinfo);
  CHECK_EQ(count_as(CountingTool::deepspeed, row), printed.deepspeed);
  CHECK_EQ(count_as(CountingTool::torch, row), printed.torch);
}

LayerRow module(std::string_view type, Shape in, Shape out, std::int64_t parameters, std::int64_t macs) {
  LayerRow row = layer_row("m", type, 1, in, out);
  row.parameters = parameters;
  row.forward_macs = macs;
  return row;
}

}  // namespace

TEST_CASE("a convolution with bias") {
  // Conv2d(3, 64, 7, stride=2, padding=3) on 3x224x224: 64 * 3 * 49 = 9408 weights and 64 biases.
  check(module("Conv2d", {1, 3, 224, 224}, {1, 64, 112, 112}, 9472, 118013952),
        {118013952, 118816768, 118013952, 118816768, 236830720, 236027904});
}

TEST_CASE("a depthwise convolution without bias") {
  check(module("Conv2d", {1, 64, 56, 56}, {1, 64, 56, 56}, 576, 1806336),
        {1806336, 1806336, 1806336, 1806336, 3612672, 3612672});
}

TEST_CASE("a transposed convolution: thop and torchinfo count by output positions") {
  // ConvTranspose2d(64, 32, 4, stride=2, padding=1, bias=False): 32,768 weights on 16x16, giving 32x32.
  check(module("ConvTranspose2d", {1, 64, 16, 16}, {1, 32, 32, 32}, 32768, 8388608),
        {8388608, 8388608, 33554432, 33554432, 16777216, 16777216});
}

TEST_CASE("a linear layer on tokens") {
  // Linear(128, 256) on 50 tokens.
  check(module("Linear", {1, 50, 128}, {1, 50, 256}, 33024, 1638400),
        {1638400, 1651200, 1638400, 1651200, 3276800, 3276800});
}

TEST_CASE("products outside modules count for the tools that watch operators") {
  const LayerRow row = module("MatMul", {1, 100, 64}, {1, 100, 100}, 0, 640000);
  check(row, {640000, 0, 0, 0, 1280000, 1280000});
}

TEST_CASE("per sample: the batch and the loss do not count") {
  Report report = tests::example_report();
  LayerRow loss = layer_row("loss", "CrossEntropyLoss", 0, {2, 10}, {});
  loss.forward_macs = 1;
  report.layers.push_back(loss);
  // One sample: convolution 442,368 + batch norm 2 x 16,384 + linear 163,840.
  CHECK_EQ(count_as_per_sample(CountingTool::fvcore, report), 442368 + 2 * 16384 + 163840);
  CHECK_EQ(count_as_per_sample(CountingTool::torch, report), 2 * (442368 + 163840));
}
