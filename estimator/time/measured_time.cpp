#include "estimator/time/measured_time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "estimator/time/product_time.h"

namespace gpuplan {
namespace {

constexpr std::size_t kNeighbours = 4;
constexpr double kSamePlace = 1e-6;  // squared distance

std::optional<ProductType> product_type(DType type, bool tf32) {
  switch (type) {
    case DType::fp32: return tf32 ? ProductType::tf32 : ProductType::fp32;
    case DType::fp16: return ProductType::fp16;
    case DType::bf16: return ProductType::bf16;
    default: return std::nullopt;
  }
}

DType dtype_of(ProductType type) {
  switch (type) {
    case ProductType::fp16: return DType::fp16;
    case ProductType::bf16: return DType::bf16;
    default: return DType::fp32;
  }
}

struct Neighbour {
  double squared_distance = 0, log_ratio = 0;
};

std::array<double, 3> log_sizes(const ProductShape& s) {
  return {std::log(s.m * s.batch), std::log(s.n), std::log(s.k)};
}

double mean_ratio(std::vector<Neighbour>& near) {
  if (near.empty()) return 1;
  const std::size_t count = std::min(near.size(), kNeighbours);
  std::ranges::partial_sort(near, near.begin() + static_cast<std::ptrdiff_t>(count), {}, &Neighbour::squared_distance);
  double sum = 0, weights = 0;
  for (const Neighbour& n : std::span(near).first(count)) {
    const double weight = 1 / (n.squared_distance + kSamePlace);
    sum += weight * n.log_ratio;
    weights += weight;
  }
  return std::exp(sum / weights);
}

// `alike` says which of the measured products count.
template <class Alike>
double nearest_ratio(const ProductShape& shape, const Processor& on, Alike alike) {
  std::vector<Neighbour> near;
  const std::array<double, 3> logs = log_sizes(shape);
  for (const MeasuredProduct& p : on.products) {
    if (!alike(p)) continue;
    double squared = 0;
    for (std::size_t i = 0; i < logs.size(); ++i) squared += (logs[i] - p.log_sizes[i]) * (logs[i] - p.log_sizes[i]);
    near.push_back({squared, p.log_ratio});
  }
  return mean_ratio(near);
}

double net_seconds(std::int64_t nanoseconds, const Measurements& m) {
  return 1e-9 * static_cast<double>(std::max<std::int64_t>(nanoseconds - m.launch_ns, 1));
}

double log_ratio(const Primitive& what, const Work& work, std::int64_t nanoseconds, const Processor& on) {
  const OperationTime time = operation_time(what, work, on);
  return std::log(net_seconds(nanoseconds, *on.gpu.measured) / std::max(time.compute_seconds, time.memory_seconds));
}

MeasuredProduct compared(const TimedGemm& t, const Processor& on) {
  const DType type = dtype_of(t.type);
  const Gemm gemm{.batch = 1, .m = t.m, .n = t.n, .k = t.k, .bias_epilogue = false, .dtype = type};
  const Work work{2 * t.m * t.n * t.k,         0,   (t.m * t.k + t.k * t.n + t.m * t.n) * size_of(type), type,
                  t.type == ProductType::tf32, true};
  const auto real = [](std::int64_t n) { return static_cast<double>(n); };
  return {t.type, std::nullopt, false, log_sizes({1, real(t.m), real(t.n), real(t.k)}),
          log_ratio(gemm, work, t.nanoseconds, on)};
}

MeasuredProduct compared(const TimedConvolution& t, const Processor& on) {
  Convolution c;
  c.pass = t.pass, c.n = t.n, c.c = t.c, c.h = t.h, c.w = t.w, c.k = t.k, c.r = t.r, c.s = t.s;
  c.stride_h = c.stride_w = t.stride, c.pad_h = c.pad_w = t.padding;
  c.p = (t.h + 2 * t.padding - t.r) / t.stride + 1, c.q = (t.w + 2 * t.padding - t.s) / t.stride + 1;
  c.dtype = dtype_of(t.type), c.channels_last = t.layout == MemoryFormat::channels_last;
  const std::int64_t elements = t.n * t.c * t.h * t.w + t.k * t.c * t.r * t.s + t.n * t.k * c.p * c.q;
  const Work work{2 * macs(c), 0, elements * size_of(c.dtype), c.dtype, t.type == ProductType::tf32, true};
  return {t.type, t.pass, c.channels_last, log_sizes(implicit_product(c)), log_ratio(c, work, t.nanoseconds, on)};
}

// Piecewise linear in time between measured sizes, at the last one's rate beyond it.
double seconds_for(std::int64_t bytes, std::span<const TimedBytes> timed) {
  const auto after = std::ranges::lower_bound(timed, bytes, {}, &TimedBytes::bytes);
  const auto seconds = [](const TimedBytes& t) { return 1e-9 * static_cast<double>(t.nanoseconds); };
  if (after == timed.begin()) return seconds(*after) * static_cast<double>(bytes) / static_cast<double>(after->bytes);
  if (after == timed.end())
    return seconds(timed.back()) * static_cast<double>(bytes) / static_cast<double>(timed.back().bytes);
  const TimedBytes &low = *std::prev(after), &high = *after;
  const double part = static_cast<double>(bytes - low.bytes) / static_cast<double>(high.bytes - low.bytes);
  return seconds(low) + part * (seconds(high) - seconds(low));
}

std::vector<TimedBytes> sorted(std::vector<TimedBytes> timed) {
  std::ranges::sort(timed, {}, &TimedBytes::bytes);
  return timed;
}

}  // namespace

Processor make_processor(const Gpu& gpu, const TimeModel& model) {
  Processor on{gpu, model, rated_peaks(gpu), {}, {}};
  if (!gpu.measured || !on.peaks.known()) return on;
  on.copies = sorted(gpu.measured->copy);
  std::vector<MeasuredProduct> products;
  for (const TimedGemm& t : gpu.measured->gemm) products.push_back(compared(t, on));
  for (const TimedConvolution& t : gpu.measured->convolution) products.push_back(compared(t, on));
  on.products = std::move(products);
  return on;
}

double measured_share(const Gemm& g, bool tf32, const Processor& on) {
  const auto type = product_type(g.dtype, tf32);
  if (on.products.empty() || !type) return 1;
  const auto real = [](std::int64_t n) { return static_cast<double>(n); };
  return nearest_ratio({real(g.batch), real(g.m), real(g.n), real(g.k)}, on,
                       [&](const MeasuredProduct& p) { return !p.pass && p.type == *type; });
}

double measured_share(const Convolution& c, const Processor& on) {
  const auto type = product_type(c.dtype, on.peaks.tf32 > on.peaks.fp32);
  if (on.products.empty() || !type || c.groups != 1) return 1;
  return nearest_ratio(implicit_product(c), on, [&](const MeasuredProduct& p) {
    return p.pass == c.pass && p.channels_last == c.channels_last && p.type == *type;
  });
}

double achieved_bandwidth(std::int64_t bytes, const Processor& on) {
  if (on.copies.empty() || bytes <= 0) return on.achieved_bytes();
  // So many bytes read, as many written.
  const double seconds =
      seconds_for((bytes + 1) / 2, on.copies) - 1e-9 * static_cast<double>(on.gpu.measured->launch_ns);
  return seconds > 0 ? std::min(static_cast<double>(bytes) / seconds, on.peaks.bytes) : on.peaks.bytes;
}

double kernel_seconds(const Processor& on) {
  return on.gpu.measured && on.gpu.measured->launch_ns > 0 ? 1e-9 * static_cast<double>(on.gpu.measured->launch_ns)
                                                           : on.model.kernel_seconds;
}

double host_bandwidth(std::int64_t bytes, bool pinned, const Processor& on) {
  if (bytes <= 0) return 0;
  if (on.gpu.measured) {
    const auto& timed = pinned ? on.gpu.measured->to_device_pinned : on.gpu.measured->to_device_pageable;
    if (!timed.empty()) return static_cast<double>(bytes) / seconds_for(bytes, sorted(timed));
  }
  const bool known = on.gpu.datasheet && on.gpu.datasheet->host_link_gb_s;
  const double link = known ? *on.gpu.datasheet->host_link_gb_s * 1e9 * on.model.link : 0;
  if (pinned) return link;
  return known ? std::min(link, on.model.pageable_bytes) : on.model.pageable_bytes;
}

}  // namespace gpuplan
