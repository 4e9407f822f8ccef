// Pooling of images [N, C, H, W].
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "estimator/base/error.h"
#include "tests/host_device/operation.h"

namespace gpuplan::host {
namespace {

// One plane of an image: [H, W] at `begin`.
struct Plane {
  std::int64_t begin, h, w;
};

std::vector<Plane> planes(const KernelTensor& t) {
  std::vector<Plane> all;
  const std::int64_t h = t.sizes[2], w = t.sizes[3];
  for (std::int64_t i = 0; i < t.sizes[0] * t.sizes[1]; ++i) all.push_back({i * h * w, h, w});
  return all;
}

struct Window {
  std::int64_t kernel[2], stride[2], padding[2], dilation[2];
};

Window window(std::span<const double> numbers) {
  Window w{};
  for (std::size_t i = 0; i < 2; ++i) {
    w.kernel[i] = std::lround(numbers[i]), w.stride[i] = std::lround(numbers[2 + i]);
    w.padding[i] = std::lround(numbers[4 + i]), w.dilation[i] = std::lround(numbers[6 + i]);
  }
  return w;
}

// The index, within the plane, of the greatest element of the window of output (p, q); the first of equals, and any
// NaN.
std::int64_t greatest(const Values& x, const Plane& plane, const Window& win, std::int64_t p, std::int64_t q) {
  std::int64_t best = -1;
  for (std::int64_t r = 0; r < win.kernel[0]; ++r)
    for (std::int64_t s = 0; s < win.kernel[1]; ++s) {
      const std::int64_t i = p * win.stride[0] - win.padding[0] + r * win.dilation[0];
      const std::int64_t j = q * win.stride[1] - win.padding[1] + s * win.dilation[1];
      if (i < 0 || i >= plane.h || j < 0 || j >= plane.w) continue;
      const double value = x[plane.begin + i * plane.w + j];
      if (best < 0 || value > x[plane.begin + best] || std::isnan(value)) best = i * plane.w + j;
    }
  return best;
}

void max_pool(const Kernel& k) {
  const Window win = window(in_row_order(k));
  const Values x = read(k.reads[0]);
  Values y = zeros(sizes_of(k.writes[0])), indices = y;
  const std::vector<Plane> in = planes(k.reads[0]), out = planes(k.writes[0]);
  for (std::size_t c = 0; c < out.size(); ++c)
    for (std::int64_t i = 0; i < out[c].h * out[c].w; ++i) {
      const std::int64_t best = greatest(x, in[c], win, i / out[c].w, i % out[c].w);
      indices[out[c].begin + i] = static_cast<double>(best);
      y[out[c].begin + i] = best < 0 ? -std::numeric_limits<double>::infinity() : x[in[c].begin + best];
    }
  write(k.writes[0], y);
  write(k.writes[1], indices);
}

void max_pool_backward(const Kernel& k) {
  const Values grad = read(k.reads[0]), indices = read(k.reads[2]);
  Values dx = zeros(sizes_of(k.reads[1]));
  const std::vector<Plane> in = planes(k.reads[1]), out = planes(k.reads[0]);
  for (std::size_t c = 0; c < out.size(); ++c)
    for (std::int64_t i = 0; i < out[c].h * out[c].w; ++i) {
      const double at = indices[out[c].begin + i];
      if (!(at >= 0 && at < static_cast<double>(in[c].h * in[c].w))) throw Error("an index outside of the image");
      dx[in[c].begin + static_cast<std::int64_t>(at)] += grad[out[c].begin + i];
    }
  write(k.writes[0], dx);
}

// Calls f(input element, output element, elements of the window); windows overlap where the sizes do not divide.
template <class F>
void adaptive(const KernelTensor& image, const KernelTensor& pooled, F&& f) {
  const std::vector<Plane> in = planes(image), out = planes(pooled);
  const auto first = [](std::int64_t i, std::int64_t of, std::int64_t size) { return i * size / of; };
  const auto last = [](std::int64_t i, std::int64_t of, std::int64_t size) { return ((i + 1) * size + of - 1) / of; };
  for (std::size_t c = 0; c < out.size(); ++c)
    for (std::int64_t p = 0; p < out[c].h; ++p)
      for (std::int64_t q = 0; q < out[c].w; ++q) {
        const std::int64_t top = first(p, out[c].h, in[c].h), bottom = last(p, out[c].h, in[c].h);
        const std::int64_t left = first(q, out[c].w, in[c].w), right = last(q, out[c].w, in[c].w);
        for (std::int64_t i = top; i < bottom; ++i)
          for (std::int64_t j = left; j < right; ++j)
            f(in[c].begin + i * in[c].w + j, out[c].begin + p * out[c].w + q,
              static_cast<double>((bottom - top) * (right - left)));
      }
}

void adaptive_average(const Kernel& k) {
  const Values x = read(k.reads[0]);
  Values y = zeros(sizes_of(k.writes[0]));
  adaptive(k.reads[0], k.writes[0], [&](std::int64_t i, std::int64_t o, double n) { y[o] += x[i] / n; });
  write(k.writes[0], y);
}

void adaptive_average_backward(const Kernel& k) {
  const Values grad = read(k.reads[0]);
  Values dx = zeros(sizes_of(k.writes[0]));
  adaptive(k.writes[0], k.reads[0], [&](std::int64_t i, std::int64_t o, double n) { dx[i] += grad[o] / n; });
  write(k.writes[0], dx);
}

constexpr std::array kOperations{Operation{Operator::max_pool2d_with_indices, max_pool, 1, 8},
                                 Operation{Operator::max_pool2d_with_indices_backward, max_pool_backward, 3},
                                 Operation{Operator::_adaptive_avg_pool2d, adaptive_average, 1},
                                 Operation{Operator::_adaptive_avg_pool2d_backward, adaptive_average_backward, 1}};

}  // namespace

std::span<const Operation> pooling_operations() { return kOperations; }

}  // namespace gpuplan::host
