#include "validate/calibration/sizes.h"

#include <algorithm>

#include "estimator/device/arithmetic.h"
#include "estimator/device/measurement_words.h"
#include "validate/calibration/convolution_shape.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kWeight = 4096;  // features of the weight that meets few and many rows

TimedConvolution image_pass(ProductType type, std::int64_t batch, std::int64_t channels, std::int64_t size,
                            std::int64_t filters, std::int64_t filter) {
  TimedConvolution c;
  c.type = type;
  c.n = batch, c.c = channels, c.h = c.w = size, c.k = filters, c.r = c.s = filter;
  c.padding = (filter - 1) / 2;
  return c;
}

std::vector<TimedConvolution> of_a_pass(ProductType type, ConvolutionPass pass, bool quick) {
  std::vector<TimedConvolution> sizes;
  for (const std::int64_t batch : quick ? std::vector<std::int64_t>{8} : std::vector<std::int64_t>{1, 8, 64}) {
    for (const std::int64_t channels : {64, 128, 256, 512}) {
      const std::int64_t size = 3584 / channels;  // 56, 28, 14, 7
      sizes.push_back(image_pass(type, batch, channels, size, channels, 3));
      if (!quick) sizes.push_back(image_pass(type, batch, channels, size, 4 * channels, 1));
    }
    if (pass == ConvolutionPass::backward_data) continue;
    sizes.push_back(image_pass(type, batch, 3, 224, 64, 7));
    sizes.back().stride = 2;
  }
  std::ranges::stable_sort(sizes, {}, [](const TimedConvolution& c) { return flops(c); });
  return sizes;
}

}  // namespace

std::vector<ProductType> product_types(const Gpu& gpu) {
  std::vector<ProductType> types{ProductType::fp32};
  if (on_tensor_cores(gpu, Arithmetic::tf32)) types.push_back(ProductType::tf32);
  if (computes(gpu, Arithmetic::fp16)) types.push_back(ProductType::fp16);
  if (computes(gpu, Arithmetic::bf16)) types.push_back(ProductType::bf16);
  return types;
}

std::vector<std::int64_t> copy_sizes(bool quick, std::int64_t most) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t bytes = 4096; bytes <= most; bytes *= quick ? 16 : 4) sizes.push_back(bytes);
  return sizes;
}

std::vector<TimedGemm> gemm_sizes(ProductType type, bool quick) {
  std::vector<TimedGemm> sizes;
  const auto add = [&](std::int64_t m, std::int64_t n, std::int64_t k) { sizes.push_back({type, m, n, k, 0}); };
  for (std::int64_t m = quick ? 256 : 64; m <= (quick ? 4096 : 16384); m *= quick ? 4 : 2) add(m, m, m);
  for (std::int64_t m = 1; m <= 16384; m *= quick ? 32 : 4) {
    if (m != kWeight) add(m, kWeight, kWeight);
  }
  if (!quick) {
    for (const std::int64_t m : {1025, 2049, 4097}) add(m, m, m);
    for (const std::int64_t k : {16, 64, 256}) add(kWeight, kWeight, k);
  }
  std::ranges::stable_sort(sizes, {}, [](const TimedGemm& g) { return flops(g); });
  return sizes;
}

std::vector<TimedConvolution> convolution_sizes(ProductType type, bool quick) {
  std::vector<TimedConvolution> sizes;
  for (const auto& [layout, layout_word] : kLayouts) {
    const bool half = type == ProductType::fp16 || type == ProductType::bf16;
    if (layout == MemoryFormat::channels_last && !half) continue;
    for (const auto& [pass, pass_word] : kPasses) {
      for (TimedConvolution c : of_a_pass(type, pass, quick)) {
        c.layout = layout;
        c.pass = pass;
        sizes.push_back(c);
      }
    }
  }
  return sizes;
}

double flops(const TimedGemm& g) {
  return 2.0 * static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
}

double flops(const TimedConvolution& c) { return 2.0 * static_cast<double>(macs(shape_of(c))); }

}  // namespace gpuplan
