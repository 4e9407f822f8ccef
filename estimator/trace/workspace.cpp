#include "estimator/trace/workspace.h"

#include <algorithm>

#include "estimator/base/error.h"
#include "estimator/trace/learned_text.h"

namespace gpuplan {
namespace {

constexpr std::array kPasses = {"forward", "backward_data", "backward_filter"};
constexpr std::int64_t kMostNumber = std::int64_t{1} << 31;  // cuDNN's own sizes are ints

// A number of a convolution through the runs that have it; nothing else than the batch's size varies in most.
std::optional<SizeFunction> fit_number(std::span<const TraceVariable> variables,
                                       const std::vector<std::vector<std::int64_t>>& values,
                                       const std::vector<std::int64_t>& numbers, bool all_runs) {
  SizeFunction function;
  if (std::ranges::all_of(numbers, [&](std::int64_t n) { return n == numbers[0]; })) {
    function.coefficient[0][0] = numbers[0];
    return function;
  }
  const std::int64_t ratio = numbers[0] / values[0][0];
  bool proportional = true;
  for (std::size_t i = 0; i < numbers.size(); ++i) proportional = proportional && numbers[i] == ratio * values[i][0];
  if (proportional) {
    function.coefficient[1][0] = ratio;
    return function;
  }
  const auto fitted = all_runs ? fit_size(variables, values, numbers) : std::nullopt;
  return fitted ? std::optional(fitted->function) : std::nullopt;
}

CudnnConvolution convolution_at(const LearnedWorkspace& workspace, std::span<const std::int64_t> values) {
  CudnnConvolution convolution;
  convolution.pass = workspace.pass;
  convolution.dtype = workspace.dtype;
  convolution.channels_last = workspace.channels_last;
  const auto places = convolution_numbers(convolution);
  for (std::size_t i = 0; i < places.size(); ++i) {
    *places[i] = size_at(workspace.numbers[i], values);
    const bool is_padding = places[i] == &convolution.pad_h || places[i] == &convolution.pad_w;
    if (*places[i] < (is_padding ? 0 : 1)) throw Error("a convolution has nothing to compute");
    if (*places[i] > kMostNumber) throw Error("a convolution is larger than cuDNN's");
  }
  return convolution;
}

std::optional<std::vector<std::int64_t>> parse_points(std::string_view text, std::size_t runs) {
  if (!text.starts_with('[') || !text.ends_with(']')) return std::nullopt;
  text = text.substr(1, text.size() - 2);
  std::vector<std::int64_t> points;
  while (points.size() < runs) {
    const std::optional<std::int64_t> point = parse_number(take_until(text, ','));
    if (!point) return std::nullopt;
    points.push_back(*point);
  }
  return text.empty() ? std::optional(points) : std::nullopt;
}

}  // namespace

std::array<std::int64_t*, kConvolutionNumbers> convolution_numbers(CudnnConvolution& c) {
  return {&c.n, &c.c,        &c.h,        &c.w,     &c.k,     &c.r,          &c.s,          &c.p,
          &c.q, &c.stride_h, &c.stride_w, &c.pad_h, &c.pad_w, &c.dilation_h, &c.dilation_w, &c.groups};
}

std::int64_t workspace_at(const LearnedWorkspace& workspace, std::span<const std::int64_t> values, const Gpu& gpu) {
  return cudnn_workspace_bytes(convolution_at(workspace, values), gpu);
}

std::optional<LearnedWorkspace> fit_workspace(std::span<const TraceVariable> variables,
                                              std::span<const std::vector<std::int64_t>> values,
                                              std::span<const std::optional<CudnnConvolution>> of,
                                              std::vector<std::int64_t> points, const Gpu& gpu) {
  LearnedWorkspace found;
  std::array<std::vector<std::int64_t>, kConvolutionNumbers> numbers;
  std::vector<std::vector<std::int64_t>> present;
  for (std::size_t r = 0; r < of.size(); ++r) {
    if (points[r] == 0) continue;
    if (!of[r]) return std::nullopt;
    CudnnConvolution convolution = *of[r];
    if (present.empty())
      found.pass = convolution.pass, found.dtype = convolution.dtype, found.channels_last = convolution.channels_last;
    if (found.pass != convolution.pass || found.dtype != convolution.dtype ||
        found.channels_last != convolution.channels_last)
      return std::nullopt;
    const auto places = convolution_numbers(convolution);
    for (std::size_t i = 0; i < places.size(); ++i) numbers[i].push_back(*places[i]);
    present.push_back(values[r]);
  }
  if (present.empty()) return std::nullopt;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto function = fit_number(variables, present, numbers[i], present.size() == values.size());
    if (!function) return std::nullopt;
    found.numbers[i] = *function;
  }
  std::size_t agree = 0;
  try {
    for (std::size_t r = 0; r < of.size(); ++r)
      agree += points[r] != 0 && workspace_at(found, values[r], gpu) == points[r] ? 1 : 0;
  } catch (const Error&) {
    return std::nullopt;
  }
  if (2 * agree < present.size()) return std::nullopt;
  found.points = std::move(points);
  return found;
}

std::string text_of(const LearnedWorkspace& workspace, std::span<const TraceVariable> variables) {
  std::string text = std::string(kPasses[static_cast<std::size_t>(workspace.pass)]) + ":" +
                     std::string(name_of(workspace.dtype)) + (workspace.channels_last ? ":nhwc" : ":nchw");
  for (std::size_t i = 0; i < workspace.numbers.size(); ++i)
    text += (i == 0 ? ":" : ",") + text_of(workspace.numbers[i], variables);
  for (std::size_t r = 0; r < workspace.points.size(); ++r)
    text += (r == 0 ? ":[" : ",") + std::to_string(workspace.points[r]);
  return text + "]";
}

std::optional<LearnedWorkspace> parse_workspace(std::string_view text, std::span<const TraceVariable> variables,
                                                std::size_t runs) {
  LearnedWorkspace workspace;
  const auto pass = std::ranges::find(kPasses, take_until(text, ':'));
  if (pass == kPasses.end()) return std::nullopt;
  workspace.pass = static_cast<CudnnConvolution::Pass>(pass - kPasses.begin());
  const std::optional<DType> dtype = dtype_from_name(take_until(text, ':'));
  const std::string_view layout = take_until(text, ':');
  if (!dtype || (layout != "nchw" && layout != "nhwc")) return std::nullopt;
  workspace.dtype = *dtype;
  workspace.channels_last = layout == "nhwc";
  std::string_view numbers = take_until(text, ':');
  for (SizeFunction& number : workspace.numbers) {
    const auto parsed = parse_size_function(take_until(numbers, ','), variables);
    if (!parsed) return std::nullopt;
    number = *parsed;
  }
  const auto points = parse_points(text, runs);
  if (!numbers.empty() || !points) return std::nullopt;
  workspace.points = *points;
  return workspace;
}

}  // namespace gpuplan
