// cuDNN chooses an engine by heuristics, and the engine decides the workspace: transposed copies of the input and the
// output where it works in NHWC, filters per split of the reduction, descriptors. The choice cannot be derived, so it
// is recorded for the convolutions of common models (cudnn_workspace_table.h); between recorded batches the form of the
// next smaller batch holds. Any other convolution is `modelled`: it takes the form of the most similar recorded
// one, with its rest scaled by the size of the filter.
#include "estimator/memory/cudnn_workspace.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <tuple>

#include "estimator/error.h"
#include "estimator/integers.h"
#include "estimator/memory/cudnn_workspace_table.h"

namespace gpuplan {
namespace {

using cudnn_table::RecordedShape;

struct Form {
  bool padded = false;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  std::int64_t rest_bytes = 0;
};

constexpr double kMaxWorkspaceBytes = 0x1p60;  // what a double holds beyond may not fit an integer

/// A rest below this holds descriptors and alignment, not filters, so it does not grow with the filter.
constexpr std::int64_t kDescriptorBytes = 512;

/// The recorded GPU that stands for this one, by compute capability; newer ones than Hopper are `modelled` by it.
std::size_t recorded_gpu(const Gpu& gpu) {
  if (gpu.capability_major >= 9) return 0;  // h200
  if (gpu.capability_major == 8) return gpu.capability_minor == 0 ? 1 : 2;
  return 3;  // t4
}

std::size_t setup_of(const CudnnConvolution& conv, const Gpu& gpu) {
  const std::size_t gpu_index = recorded_gpu(gpu);
  std::size_t dtype = conv.dtype == DType::fp32 ? 0 : conv.dtype == DType::fp16 ? 1 : 2;
  // Not in the table: before Ampere PyTorch convolves bf16 by im2col, without cuDNN; `modelled` by fp16.
  if (gpu_index == 3) dtype = std::min<std::size_t>(dtype, 1);
  return (gpu_index * 3 + dtype) * 2 + (conv.channels_last ? 1 : 0);
}

auto members(const RecordedShape& s) {
  return std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                    std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>(
      s.c, s.h, s.w, s.k, s.r, s.s, s.stride_h, s.stride_w, s.pad_h, s.pad_w, s.dilation_h, s.dilation_w, s.groups);
}

auto members(const CudnnConvolution& v) {
  return std::tuple(v.c, v.h, v.w, v.k, v.r, v.s, v.stride_h, v.stride_w, v.pad_h, v.pad_w, v.dilation_h, v.dilation_w,
                    v.groups);
}

/// Dense, depthwise or in between: engines differ.
int grouping(std::int64_t groups, std::int64_t channels) { return groups == 1 ? 0 : groups == channels ? 1 : 2; }

/// How unlike two convolutions are, for the choice of an engine. Weights chosen on models outside the table. Channels
/// that are not a multiple of 4 keep tensor cores away, so they outweigh any size.
double distance(const CudnnConvolution& conv, const RecordedShape& shape) {
  const auto ratio = [](std::int64_t a, std::int64_t b) {
    return std::abs(std::log2(static_cast<double>(a) / static_cast<double>(b)));
  };
  const auto penalty = [](bool same, double weight) { return same ? 0.0 : weight; };
  const std::int64_t area =
      (shape.h + shape.stride_h - 1) / shape.stride_h * ((shape.w + shape.stride_w - 1) / shape.stride_w);
  return 0.5 * ratio(conv.c, shape.c) + ratio(conv.k, shape.k) + 0.5 * ratio(conv.p * conv.q, area) +
         2 * (ratio(conv.r, shape.r) + ratio(conv.s, shape.s)) + penalty((conv.c % 4 == 0) == (shape.c % 4 == 0), 4) +
         penalty((conv.k % 4 == 0) == (shape.k % 4 == 0), 4) + penalty(conv.r == shape.r && conv.s == shape.s, 8) +
         penalty(conv.stride_h == shape.stride_h, 8) + penalty((conv.dilation_h > 1) == (shape.dilation_h > 1), 8) +
         penalty(grouping(conv.groups, conv.c) == grouping(shape.groups, shape.c), 32);
}

std::size_t most_similar(const CudnnConvolution& conv) {
  const auto shapes = cudnn_table::shapes();
  std::size_t best = 0;
  double best_distance = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const double d = distance(conv, shapes[i]);
    if (d < best_distance) {
      best_distance = d;
      best = i;
    }
  }
  return best;
}

/// The form at batch n in the codes of one shape (format: cudnn_workspace_table.h).
Form form_at(std::string_view codes, CudnnConvolution::Pass pass, std::int64_t n) {
  for (int skipped = 0; skipped < static_cast<int>(pass); ++skipped) codes.remove_prefix(codes.find(' ') + 1);
  codes = codes.substr(0, codes.find(' '));
  Form form;
  while (!codes.empty() && (std::int64_t{1} << (codes[0] - 'a')) <= n) {
    const int letter = codes[1] - 'A';
    form = {letter >= 9, letter % 9 / 3, letter % 3, 0};
    codes.remove_prefix(2);
    const auto digits = std::from_chars(codes.data(), codes.data() + codes.size(), form.rest_bytes);
    codes.remove_prefix(static_cast<std::size_t>(digits.ptr - codes.data()));
  }
  return form;
}

std::int64_t copy_bytes(const CudnnConvolution& conv, const Form& form) {
  const std::int64_t step = !form.padded ? 1 : conv.dtype == DType::fp32 ? 4 : 8;
  const std::int64_t pixel_bytes = checked_mul(conv.n, size_of(conv.dtype));
  const std::int64_t input = checked_mul(checked_mul(round_up(conv.c, step), checked_mul(conv.h, conv.w)), pixel_bytes);
  const std::int64_t output =
      checked_mul(checked_mul(round_up(conv.k, step), checked_mul(conv.p, conv.q)), pixel_bytes);
  return checked_add(checked_mul(form.inputs, input), checked_mul(form.outputs, output));
}

}  // namespace

std::size_t SimilarConvolutions::find(const CudnnConvolution& conv) {
  const auto shapes = cudnn_table::shapes();
  const auto recorded = std::lower_bound(shapes.begin(), shapes.end(), members(conv),
                                         [](const RecordedShape& s, const auto& key) { return members(s) < key; });
  if (recorded != shapes.end() && members(*recorded) == members(conv))
    return static_cast<std::size_t>(recorded - shapes.begin());
  const auto key = std::apply([](auto... member) { return std::array{member...}; }, members(conv));
  const auto [it, fresh] = found_.try_emplace(key, 0);
  if (fresh) it->second = most_similar(conv);
  return it->second;
}

std::int64_t cudnn_workspace_bytes(const CudnnConvolution& conv, const Gpu& gpu, SimilarConvolutions& similar) {
  // fp64 engines take at most a few KiB (4 to 18 in recordings of ResNet-50): left out.
  if (conv.dtype == DType::fp64) return 0;
  const std::size_t index = similar.find(conv);
  const RecordedShape& shape = cudnn_table::shapes()[index];
  Form form = form_at(cudnn_table::codes(setup_of(conv, gpu), index), conv.pass, conv.n);
  if (form.rest_bytes >= kDescriptorBytes && members(shape) != members(conv)) {
    const double filter = static_cast<double>(conv.k) * static_cast<double>(conv.c) / static_cast<double>(conv.groups) *
                          static_cast<double>(conv.r * conv.s);
    const double recorded = static_cast<double>(shape.k) * shape.c / shape.groups * shape.r * shape.s;
    const double scaled = static_cast<double>(form.rest_bytes) * (filter / recorded);
    if (scaled > kMaxWorkspaceBytes) throw Error("a convolution's workspace takes more than 1 EiB of memory");
    form.rest_bytes = static_cast<std::int64_t>(scaled);
  }
  return checked_add(copy_bytes(conv, form), form.rest_bytes);
}

}  // namespace gpuplan
