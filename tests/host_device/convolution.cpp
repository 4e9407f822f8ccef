// Convolutions in their three passes, by the definition: feature[n, k, p, q] is the sum over c, r, s of
// image[n, c, p stride - pad + r dilation, ...] filter[k, c, r, s].
#include <array>
#include <variant>

#include "tests/host_device/operation.h"

namespace gpuplan::host {
namespace {

// Calls f(image element, filter element, feature element) for every product of the sum.
template <class F>
void products(const Convolution& c, F&& f) {
  const std::int64_t each_c = c.c / c.groups, each_k = c.k / c.groups;
  for (std::int64_t n = 0; n < c.n; ++n)
    for (std::int64_t k = 0; k < c.k; ++k)
      for (std::int64_t p = 0; p < c.p; ++p)
        for (std::int64_t q = 0; q < c.q; ++q)
          for (std::int64_t i = 0; i < each_c; ++i)
            for (std::int64_t r = 0; r < c.r; ++r)
              for (std::int64_t s = 0; s < c.s; ++s) {
                const std::int64_t y = p * c.stride_h - c.pad_h + r * c.dilation_h;
                const std::int64_t x = q * c.stride_w - c.pad_w + s * c.dilation_w;
                if (y < 0 || y >= c.h || x < 0 || x >= c.w) continue;
                const std::int64_t channel = k / each_k * each_c + i;
                f(((n * c.c + channel) * c.h + y) * c.w + x, ((k * each_c + i) * c.r + r) * c.s + s,
                  ((n * c.k + k) * c.p + p) * c.q + q);
              }
}

void convolution(const Kernel& k) {
  const auto& c = std::get<Convolution>(*k.what);
  const KernelTensor target = as_image(k.writes[0]);
  const Values first = read(as_image(k.reads[0])), second = read(as_image(k.reads[1]));
  Values out = zeros(sizes_of(target));
  switch (c.pass) {
    case ConvolutionPass::forward:
      products(c, [&](std::int64_t i, std::int64_t w, std::int64_t y) { out[y] += first[i] * second[w]; });
      break;
    case ConvolutionPass::backward_data:
      products(c, [&](std::int64_t i, std::int64_t w, std::int64_t y) { out[i] += first[y] * second[w]; });
      break;
    case ConvolutionPass::backward_filter: {
      const bool transposed = k.number(Attribute::transposed) != 0;
      const Values &image = transposed ? first : second, &feature = transposed ? second : first;
      products(c, [&](std::int64_t i, std::int64_t w, std::int64_t y) { out[w] += image[i] * feature[y]; });
      break;
    }
  }
  write(target, out);
}

constexpr std::array kOperations{Operation{Operator::convolution, convolution, 2},
                                 Operation{Operator::_conv_depthwise2d, convolution, 2},
                                 Operation{Operator::convolution_backward, convolution, 2}};

}  // namespace

std::span<const Operation> convolution_operations() { return kOperations; }

}  // namespace gpuplan::host
