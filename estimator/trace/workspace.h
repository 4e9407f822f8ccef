// cuDNN's workspaces in a trace: their size is not a function of the batch, but it is known for the convolution.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/operators/cudnn_workspace.h"
#include "estimator/trace/size_function.h"

namespace gpuplan {

constexpr std::size_t kConvolutionNumbers = 16;
/// n, c, h, w, k, r, s, p, q, strides, paddings and dilations by h and w, groups.
std::array<std::int64_t*, kConvolutionNumbers> convolution_numbers(CudnnConvolution& convolution);

/// A convolution, its numbers functions of the variables.
struct LearnedWorkspace {
  CudnnConvolution::Pass pass = CudnnConvolution::Pass::forward;
  DType dtype = DType::fp32;
  bool channels_last = false;
  std::array<SizeFunction, kConvolutionNumbers> numbers{};
  std::vector<std::int64_t> points;  // recorded bytes, by run; 0 where a run does not have it
  bool operator==(const LearnedWorkspace&) const = default;
};

/// By gpuplan's own table and rule (cudnn_workspace.h). Throws Error where a number overflows or is below 0.
std::int64_t workspace_at(const LearnedWorkspace& workspace, std::span<const std::int64_t> values, const Gpu& gpu);

/// The workspace whose convolution each run has; nothing where they are of different ones, or the rule gives the
/// recorded size in fewer than half of the runs: its table is of batches that are powers of two, and between those it
/// is an assumption.
std::optional<LearnedWorkspace> fit_workspace(std::span<const TraceVariable> variables,
                                              std::span<const std::vector<std::int64_t>> values,
                                              std::span<const std::optional<CudnnConvolution>> of,
                                              std::vector<std::int64_t> points, const Gpu& gpu);

/// "forward:fp32:nchw:1*batch,3,224,224,64,7,7,112,112,2,2,3,3,1,1,1:[16056467,24084627,32112787]"
std::string text_of(const LearnedWorkspace& workspace, std::span<const TraceVariable> variables);
std::optional<LearnedWorkspace> parse_workspace(std::string_view text, std::span<const TraceVariable> variables,
                                                std::size_t runs);

}  // namespace gpuplan
