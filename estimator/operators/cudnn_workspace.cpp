// cuDNN chooses an engine by heuristics, and the engine decides the workspace: transposed copies of the input, the
// output and the filter where it works in NHWC, partial filters where it divides a long sum, descriptors. The choice
// cannot be derived. It is recorded for the convolutions of common models (cudnn_workspace_table.h); between recorded
// batches the form of the next smaller batch holds. Any other convolution is `modelled`: it takes the form that a rule
// trained on recordings gives it (cudnn_workspace_rule.h).
#include "estimator/operators/cudnn_workspace.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "estimator/base/integers.h"
#include "estimator/operators/cudnn_workspace_ceiling.h"
#include "estimator/operators/cudnn_workspace_rule.h"
#include "estimator/operators/cudnn_workspace_table.h"

namespace gpuplan {
namespace {

using cudnn_rule::Form;
using cudnn_table::RecordedShape;

constexpr std::int64_t kInt32Elements = std::int64_t{1} << 31;  // from here on PyTorch's own kernel cannot index

/// The recorded GPU that stands for this one, by compute capability; newer ones than Hopper are `modelled` by it.
std::size_t recorded_gpu(const Gpu& gpu) {
  if (gpu.capability_major >= 9) return 0;  // h100; an H200 differs in under 1 % of recordings
  if (gpu.capability_major == 8) return gpu.capability_minor == 0 ? 1 : 2;
  return 3;  // t4
}

constexpr std::size_t kRecordedGpus = 4;
constexpr std::array<std::int64_t, kRecordedGpus> kLargestBatch = {256, 1024, 1024, 1024};

/// Whether it is one of those, as cuDNN sees it.
bool is_recorded(const Gpu& gpu) {
  struct Seen {
    int major, minor, sm_count;
  };
  constexpr std::array<Seen, kRecordedGpus> kSeen = {{{9, 0, 132}, {8, 0, 108}, {8, 9, 128}, {7, 5, 40}}};
  const Seen& seen = kSeen[recorded_gpu(gpu)];
  return gpu.capability_major == seen.major && gpu.capability_minor == seen.minor && gpu.sm_count == seen.sm_count;
}

std::size_t setup_of(const CudnnConvolution& conv, std::size_t gpu_index) {
  std::size_t dtype = conv.dtype == DType::fp32 ? 0 : conv.dtype == DType::fp16 ? 1 : 2;
  // Not in the table: before Ampere PyTorch convolves bf16 by im2col, without cuDNN; `modelled` by fp16.
  if (gpu_index == 3) dtype = std::min<std::size_t>(dtype, 1);
  return (gpu_index * 3 + dtype) * 2 + (conv.channels_last ? 1 : 0);
}

/// The order of the table.
bool before(const RecordedShape& a, const RecordedShape& b) {
  using S = RecordedShape;
  for (const auto member : {&S::c, &S::h, &S::w, &S::k, &S::r, &S::s, &S::stride_h, &S::stride_w, &S::pad_h, &S::pad_w,
                            &S::dilation_h, &S::dilation_w, &S::groups})
    if (a.*member != b.*member) return a.*member < b.*member;
  return false;
}

/// As the table writes it; nothing where a number is larger than any that was recorded.
std::optional<RecordedShape> as_recorded(const CudnnConvolution& v) {
  bool small = true;
  const auto narrow = [&](std::int64_t n) {
    small = small && n >= 0 && n <= INT16_MAX;
    return static_cast<std::int16_t>(n);
  };
  const RecordedShape s{narrow(v.c),     narrow(v.h),     narrow(v.w),          narrow(v.k),
                        narrow(v.r),     narrow(v.s),     narrow(v.stride_h),   narrow(v.stride_w),
                        narrow(v.pad_h), narrow(v.pad_w), narrow(v.dilation_h), narrow(v.dilation_w),
                        narrow(v.groups)};
  return small ? std::optional(s) : std::nullopt;
}

/// The codes of one pass (format: cudnn_workspace_table.h) in those of all three.
std::string_view codes_of(std::string_view codes, CudnnConvolution::Pass pass) {
  for (int skipped = 0; skipped < static_cast<int>(pass); ++skipped) {
    if (codes.find(' ') == codes.npos) return {};
    codes.remove_prefix(codes.find(' ') + 1);
  }
  return codes.substr(0, codes.find(' '));
}

/// The form at batch n in the codes of a pass; none: the rule's.
std::optional<Form> form_at(std::string_view codes, std::int64_t n) {
  std::string_view segment;  // the last one that starts at n or before
  while (!codes.empty() && (std::int64_t{1} << (codes[0] - 'a')) <= n) {
    std::size_t end = 2;
    while (end < codes.size() && codes[end] >= '0' && codes[end] <= '9') ++end;
    segment = codes.substr(0, end);
    codes.remove_prefix(end);
  }
  const int letter = segment.empty() ? cudnn_table::kByRule : segment[1] - 'A';
  if (letter == cudnn_table::kByRule) return std::nullopt;
  const auto copies = [](int count) { return static_cast<std::int16_t>(count); };
  Form form{letter >= 9, copies(letter % 9 / 3), copies(letter % 3)};
  std::from_chars(segment.data() + 2, segment.data() + segment.size(), form.rest_bytes);  // no digits: 0
  return form;
}

/// Where the table has the convolution; nothing: it was not recorded.
std::optional<std::size_t> recorded_shape(const CudnnConvolution& conv) {
  const std::optional<RecordedShape> wanted = as_recorded(conv);
  if (!wanted) return std::nullopt;
  const auto shapes = cudnn_table::shapes();
  const auto found = std::lower_bound(shapes.begin(), shapes.end(), *wanted, before);
  if (found == shapes.end() || before(*wanted, *found)) return std::nullopt;
  return static_cast<std::size_t>(found - shapes.begin());
}

/// What the table has of a pass; nothing where the setup was not recorded.
std::optional<std::string_view> codes_at(std::size_t shape, CudnnConvolution::Pass pass, std::size_t setup) {
  const std::string_view codes = cudnn_table::codes(setup, shape);
  if (codes == cudnn_table::kNotRecorded) return std::nullopt;
  if (codes.empty() && !cudnn_table::holds_all_shapes(setup)) return std::nullopt;
  return codes_of(codes, pass);
}

std::optional<std::string_view> recorded_codes(const CudnnConvolution& conv, std::size_t setup) {
  const std::optional<std::size_t> shape = recorded_shape(conv);
  return shape ? codes_at(*shape, conv.pass, setup) : std::nullopt;
}

std::int64_t form_bytes(const CudnnConvolution& v, const Form& form) {
  const std::int64_t step = !form.padded ? 1 : v.dtype == DType::fp32 ? 4 : 8;
  const std::int64_t width = size_of(v.dtype), c = round_up(v.c, step), k = round_up(v.k, step);
  const std::int64_t filters = form.filters + form.partial_filters * (size_of(DType::fp32) / width);
  std::int64_t bytes = form.rest_bytes;
  if (form.inputs > 0) bytes = checked_add(bytes, checked_product({form.inputs, v.n, c, v.h, v.w, width}));
  if (form.outputs > 0) bytes = checked_add(bytes, checked_product({form.outputs, v.n, k, v.p, v.q, width}));
  if (filters > 0)
    bytes = checked_add(bytes, checked_product({filters, k, round_up(v.c / v.groups, step), v.r, v.s, width}));
  return bytes;
}

std::int64_t form_bytes_at(const CudnnConvolution& conv, std::string_view codes, std::size_t setup,
                           std::int64_t batch) {
  if (const std::optional<Form> form = form_at(codes, batch)) return form_bytes(conv, *form);
  CudnnConvolution other = conv;
  other.n = batch;
  return form_bytes(conv, cudnn_rule::form_of(other, setup));
}

/// Powers of two were; in the table a batch between two has the lower one's form.
bool is_recorded_batch(std::int64_t n, const Gpu& gpu) {
  return n <= kLargestBatch[recorded_gpu(gpu)] && std::has_single_bit(static_cast<std::uint64_t>(n));
}

std::int64_t ceiling_bytes(const CudnnConvolution& v, std::size_t setup) {
  const std::int64_t width = size_of(v.dtype);
  std::int64_t tensors = checked_product({v.k, v.c / v.groups, v.r, v.s, width});
  tensors = checked_add(tensors, checked_product({v.n, v.c, v.h, v.w, width}));
  tensors = checked_add(tensors, checked_product({v.n, v.k, v.p, v.q, width}));
  std::size_t size = cudnn_ceiling::kFrom.size() - 1;
  while (cudnn_ceiling::kFrom[size] > tensors) --size;
  const auto family = static_cast<std::size_t>(cudnn_rule::family_of(v));
  const std::int64_t share = cudnn_ceiling::share(setup, static_cast<std::size_t>(v.pass), family, size);
  return checked_mul(ceil_div(tensors, 1000), share);
}

/// The most that `bytes_of` says of the setups that the GPU may be one of.
template <class BytesOfSetup>
std::int64_t most_of_setups(const CudnnConvolution& conv, const Gpu& gpu, BytesOfSetup&& bytes_of) {
  if (is_recorded(gpu)) return bytes_of(setup_of(conv, recorded_gpu(gpu)));
  std::int64_t most = 0;
  for (std::size_t i = 0; i < kRecordedGpus; ++i) most = std::max(most, bytes_of(setup_of(conv, i)));
  return most;
}

/// Of the batches below and above, or of the batch itself.
std::int64_t neighbours_bytes(const CudnnConvolution& conv, std::string_view codes, std::size_t setup) {
  const auto above = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(conv.n)));
  if (above == conv.n) return form_bytes_at(conv, codes, setup, conv.n);
  return std::max(form_bytes_at(conv, codes, setup, above / 2), form_bytes_at(conv, codes, setup, above));
}

/// Depthwise convolutions in fp16 and NCHW that run faster in cuDNN (Convolution.cpp,
/// check_cudnn_depthwise_workload_with_filter).
bool cudnn_is_faster(const CudnnConvolution& v) {
  if (v.h == 1 && v.stride_w == 1) return true;
  if (v.r != v.s || (v.s != 1 && v.s != 3 && v.s != 5) || v.w < 7) return false;
  if (v.stride_w != 2) return v.stride_w == 1;
  if (v.n == 1) return v.s > 1 || v.w <= 28;
  if (v.s == 1) return v.n <= 16 && v.c >= 128 && v.w <= 7;
  return v.c >= 512 || (v.c >= 256 && v.w >= 28);
}

}  // namespace

bool runs_native_depthwise(const CudnnConvolution& v, const Gpu& gpu) {
  const bool depthwise = v.groups > 1 && v.groups == v.c && v.k % v.c == 0;
  if (!depthwise || checked_product({v.n, v.c, v.h, v.w}) >= kInt32Elements) return false;
  if (v.dtype == DType::fp64) return true;
  if (v.channels_last) return false;
  const bool for_cudnn = gpu.capability_major >= 7 && v.dtype == DType::fp16 && v.c >= 32 && v.dilation_h == 1 &&
                         v.dilation_w == 1 && (v.stride_h == v.stride_w || v.h == 1);
  return !for_cudnn || !cudnn_is_faster(v);
}

bool has_recorded_workspace(const CudnnConvolution& conv, const Gpu& gpu) {
  const std::optional<std::string_view> codes = recorded_codes(conv, setup_of(conv, recorded_gpu(gpu)));
  return codes && form_at(*codes, conv.n);
}

CudnnWorkspace cudnn_workspace(const CudnnConvolution& conv, const Gpu& gpu) {
  // fp64 engines take at most a few KiB (4 to 18 in recordings of ResNet-50): left out.
  if (conv.dtype == DType::fp64 || runs_native_depthwise(conv, gpu)) return {};
  const std::size_t setup = setup_of(conv, recorded_gpu(gpu));
  const std::optional<std::string_view> codes = recorded_codes(conv, setup);
  const std::optional<Form> form = codes ? form_at(*codes, conv.n) : std::nullopt;
  return {form_bytes(conv, form ? *form : cudnn_rule::form_of(conv, setup)),
          codes && is_recorded_batch(conv.n, gpu) && is_recorded(gpu)};
}

std::int64_t cudnn_workspace_ceiling(const CudnnConvolution& conv, const Gpu& gpu) {
  if (conv.dtype == DType::fp64 || runs_native_depthwise(conv, gpu)) return 0;
  return most_of_setups(conv, gpu, [&](std::size_t setup) { return ceiling_bytes(conv, setup); });
}

std::int64_t cudnn_workspace_at_most(const CudnnConvolution& conv, const Gpu& gpu) {
  const std::int64_t estimate = cudnn_workspace_bytes(conv, gpu);
  if (conv.dtype == DType::fp64 || runs_native_depthwise(conv, gpu)) return estimate;
  const std::optional<std::size_t> shape = recorded_shape(conv);
  if (!shape || conv.n > kLargestBatch[recorded_gpu(gpu)])
    return std::max(estimate, cudnn_workspace_ceiling(conv, gpu));
  return std::max(estimate, most_of_setups(conv, gpu, [&, at = *shape](std::size_t setup) {
                    const std::optional<std::string_view> codes = codes_at(at, conv.pass, setup);
                    return codes ? neighbours_bytes(conv, *codes, setup) : ceiling_bytes(conv, setup);
                  }));
}

}  // namespace gpuplan
