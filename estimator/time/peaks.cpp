#include "estimator/time/peaks.h"

#include <algorithm>
#include <array>

namespace gpuplan {
namespace {

// Multiply-adds a clock and SM.
struct Rates {
  int capability = 0;  // 10 * major + minor, the first that has them
  int tensor_half = 0, tensor_tf32 = 0, tensor_fp64 = 0, fp32 = 0, fp64 = 0;
};

constexpr std::array<Rates, 13> kRates = {{
    {0, 0, 0, 0, 128, 4},
    {60, 0, 0, 0, 64, 32},
    {61, 0, 0, 0, 128, 4},
    {70, 512, 0, 0, 64, 32},
    {75, 512, 0, 0, 64, 2},
    {80, 1024, 512, 64, 64, 32},
    {86, 512, 256, 0, 128, 2},
    {87, 1024, 512, 0, 128, 2},
    {89, 512, 256, 0, 128, 2},
    {90, 2048, 1024, 128, 128, 64},
    {100, 4096, 2048, 64, 128, 64},
    {103, 4096, 2048, 0, 128, 2},
    {120, 512, 256, 0, 128, 2},
}};

const Rates& rates_of(const Gpu& gpu) {
  const int capability = 10 * gpu.capability_major + gpu.capability_minor;
  return *std::prev(std::ranges::find_if(kRates, [&](const Rates& r) { return r.capability > capability; }));
}

double product_rate(const Work& work, const Peaks& peaks) {
  switch (work.dtype) {
    case DType::fp64: return peaks.fp64;
    case DType::fp16:
    case DType::bf16: return peaks.half;
    default: return work.tf32 ? peaks.tf32 : peaks.fp32;
  }
}

// What a sheet leaves out is to fp32 as the units are.
Peaks peaks_of(const Datasheet& sheet, const Rates& units) {
  const auto flops = [&](Rate rate, double otherwise) { return sheet.rate(rate).value_or(otherwise / 1e12) * 1e12; };
  Peaks peaks;
  peaks.bytes = sheet.bandwidth_gb_s * 1e9;
  peaks.plain = peaks.fp32 = flops(Rate::fp32, 0);
  const auto by_units = [&](int unit) { return peaks.fp32 * std::max(unit, units.fp32) / units.fp32; };
  peaks.tf32 = flops(Rate::tf32, by_units(units.tensor_tf32));
  peaks.half = flops(Rate::fp16_tensor, by_units(units.tensor_half));
  const double fp64 = peaks.fp32 * std::max(units.fp64, units.tensor_fp64) / units.fp32;
  peaks.fp64 = flops(Rate::fp64_tensor, flops(Rate::fp64, fp64));
  return peaks;
}

Peaks peaks_by_clocks(const Gpu& gpu) {
  Peaks peaks;
  if (gpu.memory_bus_bits && gpu.memory_clock_khz)  // both edges of the clock move data
    peaks.bytes = 2.0 * 1000 * *gpu.memory_clock_khz * (*gpu.memory_bus_bits / 8.0);
  if (!gpu.sm_clock_khz) return peaks;
  const Rates& rates = rates_of(gpu);
  const double clocks = 1000.0 * *gpu.sm_clock_khz * gpu.sm_count;
  const auto flops = [&](int multiply_adds) { return 2 * clocks * multiply_adds; };
  peaks.plain = peaks.fp32 = flops(rates.fp32);
  peaks.tf32 = flops(std::max(rates.tensor_tf32, rates.fp32));
  peaks.half = flops(std::max(rates.tensor_half, rates.fp32));
  peaks.fp64 = flops(std::max(rates.tensor_fp64, rates.fp64));
  return peaks;
}

}  // namespace

Peaks peaks_of(const Gpu& gpu) {
  const Peaks peaks = peaks_by_clocks(gpu);
  return peaks.known() || !gpu.datasheet ? peaks : peaks_of(*gpu.datasheet, rates_of(gpu));
}

Peaks rated_peaks(const Gpu& gpu) {
  return gpu.datasheet ? peaks_of(*gpu.datasheet, rates_of(gpu)) : peaks_by_clocks(gpu);
}

double rate_of_units(const Gpu& gpu, double multiply_adds) {
  return rated_peaks(gpu).plain * multiply_adds / rates_of(gpu).fp32;
}

double least_milliseconds(const Work& work, const Peaks& peaks) {
  if (!peaks.known()) return 0;
  const auto seconds = [](std::int64_t amount, double rate) { return static_cast<double>(amount) / rate; };
  return 1000 * std::max({seconds(work.product_flops, product_rate(work, peaks)),
                          seconds(work.plain_flops, peaks.plain), seconds(work.bytes, peaks.bytes)});
}

}  // namespace gpuplan
