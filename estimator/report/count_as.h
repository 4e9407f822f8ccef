// The FLOP counts that other tools print for a model, computed from its layer rows. Each tool's number is the
// multiply-adds plus small charges for some element-wise work; the coefficients were fitted to fvcore 3378afe, ptflops
// d612c75 (0.7.5), thop 43c064a (0.1.1), torchinfo 5c4164f, DeepSpeed 38327e0 and torch.utils.flop_counter, and
// reproduce what they print to the unit (tests/unit/report/test_report_count_as.cpp).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "estimator/plan/report.h"

namespace gpuplan {

enum class CountingTool : std::uint8_t { fvcore, ptflops, thop, torchinfo, deepspeed, torch };
constexpr CountingTool kCountingTools[] = {CountingTool::fvcore,    CountingTool::ptflops,   CountingTool::thop,
                                           CountingTool::torchinfo, CountingTool::deepspeed, CountingTool::torch};
std::string_view name_of(CountingTool tool);

/// What the tool calls its number, and what it is: "flops" of fvcore are multiply-adds with charges.
std::string_view unit_of(CountingTool tool);

/// The tool's number for one layer's forward in eval mode at the batch of the row.
/// Whether a model calls a module or a function (F.adaptive_avg_pool2d) is not in a spec; the module is taken.
///   fvcore     MAC + 2 batch norm + 5 layer norm + adaptive pooling's input + 4 bilinear output
///   ptflops    the module backend with count_functional=False: convolution and called Linear with their biases + 2
///   batch
///              norm + layer norm + ReLU, ReLU6, GELU + pooling's input; no attention
///   thop       convolution and called Linear + 4 batch norm + 4 LayerNorm + adaptive pooling's input and output +
///   average
///              pooling's output; no attention; a transposed convolution times its stride squared
///   torchinfo  parameters times output positions (Linear: times rows), norms times the batch; no attention
///   deepspeed  the flops: 2 MAC + convolution bias + 2 batch norm + 5 layer norm + ReLU, GELU, SiLU + softmax +
///   pooling's
///              input
///   torch      torch.utils.flop_counter: 2 MAC
std::int64_t count_as(CountingTool tool, const LayerRow& layer);
/// The sum over the model's layers for a batch of one; the loss is not part of the model.
std::int64_t count_as_per_sample(CountingTool tool, const Report& report);

}  // namespace gpuplan
