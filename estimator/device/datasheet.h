// Published figures of a GPU: peaks, links, memory; per CUDA device, not per board. Unknown figures are absent. Each
// file in configs/gpus cites its sources.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuplan {

/// The kinds of arithmetic with a published peak; dense products always, never sparse ones. *_fp16acc accumulate in
/// fp16, all others in fp32 (int8 and int4 in int32), which is what cuBLAS and PyTorch use.
enum class Rate : std::uint8_t {
  fp64,
  fp64_tensor,
  fp32,
  fp16,  // CUDA cores, half2
  tf32,
  fp16_tensor,
  fp16_tensor_fp16acc,
  bf16_tensor,
  fp8,
  fp8_fp16acc,
  fp4,
  int8,
  int4
};
constexpr int kRates = 13;
/// As files write them.
constexpr std::array<std::string_view, kRates> kRateNames = {
    "fp64",        "fp64_tensor", "fp32",        "fp16", "tf32", "fp16_tensor", "fp16_tensor_fp16acc",
    "bf16_tensor", "fp8",         "fp8_fp16acc", "fp4",  "int8", "int4"};

struct Datasheet {
  std::string chip;                             // "GH100"
  std::optional<int> cuda_cores, tensor_cores;  // of the device
  std::optional<int> boost_clock_mhz;           // of the peaks on CUDA cores
  std::optional<int> tensor_clock_mhz;          // of those on tensor cores, where lower
  double memory_gib = 0;                        // the label on the box
  std::string memory_type;                      // "HBM3e"
  double bandwidth_gb_s = 0;                    // 1e9 bytes a second
  std::optional<double> l2_mib;
  std::array<std::optional<double>, kRates> teraflops;  // 1e12 operations a second, by Rate
  std::string fp32_accumulate;                          // "full", "half", "disputed" or ""
  std::string int8_path;                                // "tensor", "dp4a" or ""
  std::optional<int> pcie_gen, pcie_lanes;
  std::optional<double> host_link_gb_s;  // in one direction, in theory
  std::optional<double> nvlink_gb_s;     // in both directions together
  std::optional<double> tdp_w;
  int year = 0;
  std::vector<std::string> derived;  // names of the rates that are computed
  std::string notes, source;
  const std::optional<double>& rate(Rate r) const { return teraflops[static_cast<std::size_t>(r)]; }
};

}  // namespace gpuplan
