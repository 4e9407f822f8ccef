// Roofline time: the least time that a GPU could take for an operation if it computed and moved memory at its peak
// rates and highest clocks, both at the same time. Real operations are slower; launches are not included.
//
// Multiply-adds a clock and SM: tensor cores by NVIDIA's whitepapers (V100, T4, A100, GA102, H100, Blackwell), CUDA
// cores by "Throughput of Native Arithmetic Instructions" in the CUDA C++ Programming Guide. GeForce cards accumulate
// half precision in fp32 at half of their tensor cores' rate, which the compute capability does not tell: they can take
// twice as long at the least.
#pragma once

#include <cstdint>

#include "estimator/base/dtype.h"
#include "estimator/device/gpu.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// Operations and bytes a second; 0: not known.
struct Peaks {
  double bytes = 0;
  double fp64 = 0, fp32 = 0, tf32 = 0, half = 0;  // of products; half: fp16 and bf16 alike
  double plain = 0;                               // fp32 on CUDA cores: what is not a product
  bool known() const { return bytes > 0 && plain > 0; }
};
/// At its highest clocks, where they are known; else rated_peaks().
Peaks peaks_of(const Gpu& gpu);
/// As published, at the clocks that the GPU is sold with, where there is a datasheet; else peaks_of().
Peaks rated_peaks(const Gpu& gpu);

/// FLOP/s of so many multiply-adds a clock and multiprocessor, at the clocks of rated_peaks(); 0: not known.
double rate_of_units(const Gpu& gpu, double multiply_adds);

/// What an operation has to compute and to move at least.
struct Work {
  std::int64_t product_flops = 0;  // of matrix products and convolutions, two a multiply-add
  std::int64_t plain_flops = 0;    // of everything else
  std::int64_t bytes = 0;          // of each tensor that it reads or writes, once
  DType dtype = DType::fp32;       // of the products
  bool tf32 = false;
  // Rows of each factor of a product begin at multiples of 16 bytes, which tensor cores' kernels load at a time.
  bool aligned = true;
  // How a product's second factor is stored. int8 and fp8 are what it is computed in, too (bitsandbytes' LLM.int8(),
  // torchao's float8); int4 is turned into `dtype` first.
  WeightFormat weights = WeightFormat::as_computed;
};

/// 0 where the peaks are not known.
double least_milliseconds(const Work& work, const Peaks& peaks);

}  // namespace gpuplan
