// Images [N, C, H, W] at another size: averages of windows, nearest and bilinear resampling.
//
// Each is a sum of weighted elements, so that the gradient is the transposed sum over the same weights.
#include <algorithm>
#include <array>
#include <cmath>

#include "tests/host_device/operation.h"

namespace gpuplan::host {
namespace {

// Calls f(input element, output element, weight) for every product that the result is made of.
template <class Of>
void forward(const Kernel& k, Of&& of) {
  const Values x = read(k.reads[0]);
  Values y = zeros(sizes_of(k.writes[0]));
  of(k.reads[0], k.writes[0], [&](std::int64_t i, std::int64_t o, double weight) { y[o] += x[i] * weight; });
  write(k.writes[0], y);
}
template <class Of>
void backward(const Kernel& k, Of&& of) {
  const Values grad = read(k.reads[0]);
  Values dx = zeros(sizes_of(k.writes[0]));
  of(k.writes[0], k.reads[0], [&](std::int64_t i, std::int64_t o, double weight) { dx[i] += grad[o] * weight; });
  write(k.writes[0], dx);
}

// Calls f(plane's first input element, output element, p, q) for every output element.
template <class F>
void each_output(const KernelTensor& in, const KernelTensor& out, F&& f) {
  const std::int64_t height = out.sizes[2], width = out.sizes[3];
  for (std::int64_t c = 0; c < in.sizes[0] * in.sizes[1]; ++c)
    for (std::int64_t p = 0; p < height; ++p)
      for (std::int64_t q = 0; q < width; ++q) f(c * in.sizes[2] * in.sizes[3], (c * height + p) * width + q, p, q);
}

// One dimension of a window: [begin, end) within the input, and its size with the padding that lies in it.
struct Range1d {
  std::int64_t begin, end, padded;
};
Range1d range(std::span<const double> n, std::size_t dim, std::int64_t at, std::int64_t size) {
  const auto number = [&](std::size_t i) { return static_cast<std::int64_t>(std::lround(n[i + dim])); };
  const std::int64_t kernel = number(0), stride = number(2), padding = number(4);
  const std::int64_t begin = at * stride - padding, end = std::min(begin + kernel, size + padding);
  return {std::max<std::int64_t>(begin, 0), std::min(end, size), end - begin};
}

// {kernel h, w, stride h, w, padding h, w, whether padding counts, the divisor or 0}: as AveragePool2d.cu.
auto average(const Kernel& k) {
  return [n = in_row_order(k)](const KernelTensor& in, const KernelTensor& out, auto&& f) {
    each_output(in, out, [&](std::int64_t first, std::int64_t o, std::int64_t p, std::int64_t q) {
      const Range1d h = range(n, 0, p, in.sizes[2]), w = range(n, 1, q, in.sizes[3]);
      const std::int64_t inside = (h.end - h.begin) * (w.end - w.begin);
      const double divisor = n[7] != 0 ? n[7] : static_cast<double>(n[6] != 0 ? h.padded * w.padded : inside);
      for (std::int64_t i = h.begin; i < h.end; ++i)
        for (std::int64_t j = w.begin; j < w.end; ++j) f(first + i * in.sizes[3] + j, o, 1 / divisor);
    });
  };
}

// {step h, step w, ...}: input elements from one output element to the next.
auto nearest(const Kernel& k) {
  return [n = in_row_order(k)](const KernelTensor& in, const KernelTensor& out, auto&& f) {
    each_output(in, out, [&](std::int64_t first, std::int64_t o, std::int64_t p, std::int64_t q) {
      const auto source = [&](std::size_t dim, std::int64_t at, std::int64_t size) {
        return std::min(static_cast<std::int64_t>(std::floor(static_cast<double>(at) * n[dim])), size - 1);
      };
      f(first + source(0, p, in.sizes[2]) * in.sizes[3] + source(1, q, in.sizes[3]), o, 1.0);
    });
  };
}

// Two neighbours, and how far the second one is taken.
struct Between {
  std::int64_t index[2];
  double weight[2];
};
Between between(double step, bool corners, std::int64_t at, std::int64_t size) {
  const auto number = static_cast<double>(at);
  const double place = corners ? number * step : std::max((number + 0.5) * step - 0.5, 0.0);
  const std::int64_t below = std::min(static_cast<std::int64_t>(place), size - 1);
  const double rest = std::min(place - static_cast<double>(below), 1.0);
  return {{below, std::min(below + 1, size - 1)}, {1 - rest, rest}};
}

// {step h, step w, whether corners lie on corners}: as UpSample.h, area_pixel_compute_source_index.
auto bilinear(const Kernel& k) {
  return [n = in_row_order(k)](const KernelTensor& in, const KernelTensor& out, auto&& f) {
    each_output(in, out, [&](std::int64_t first, std::int64_t o, std::int64_t p, std::int64_t q) {
      const Between h = between(n[0], n[2] != 0, p, in.sizes[2]), w = between(n[1], n[2] != 0, q, in.sizes[3]);
      for (std::size_t i = 0; i < 2; ++i)
        for (std::size_t j = 0; j < 2; ++j)
          f(first + h.index[i] * in.sizes[3] + w.index[j], o, h.weight[i] * w.weight[j]);
    });
  };
}

void average_pool(const Kernel& k) { forward(k, average(k)); }
void average_pool_backward(const Kernel& k) { backward(k, average(k)); }
void upsample_nearest(const Kernel& k) { forward(k, nearest(k)); }
void upsample_nearest_backward(const Kernel& k) { backward(k, nearest(k)); }
void upsample_bilinear(const Kernel& k) { forward(k, bilinear(k)); }
void upsample_bilinear_backward(const Kernel& k) { backward(k, bilinear(k)); }

constexpr std::array kOperations{Operation{Operator::avg_pool2d, average_pool, 1, 8},
                                 Operation{Operator::avg_pool2d_backward, average_pool_backward, 1, 8},
                                 Operation{Operator::upsample_nearest2d, upsample_nearest, 1, 3},
                                 Operation{Operator::upsample_nearest2d_backward, upsample_nearest_backward, 1, 3},
                                 Operation{Operator::upsample_bilinear2d, upsample_bilinear, 1, 3},
                                 Operation{Operator::upsample_bilinear2d_backward, upsample_bilinear_backward, 1, 3}};

}  // namespace

std::span<const Operation> resampling_operations() { return kOperations; }

}  // namespace gpuplan::host
