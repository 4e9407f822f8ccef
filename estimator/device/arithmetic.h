// The number types that each architecture supports natively, and what PyTorch does with types that it does not.
//
// Tensor cores: CUTLASS's pages on functionality (7.0 to 9.0) and on Blackwell's (10.0 and later), and NVIDIA's
// whitepapers. CUDA cores: "Throughput of Native Arithmetic Instructions" in the CUDA C++ Programming Guide.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

enum class Arithmetic : std::uint8_t { fp64, fp32, tf32, fp16, bf16, fp8, int8, int4 };

/// Whether tensor cores multiply this type.
bool on_tensor_cores(const Gpu& gpu, Arithmetic type);
/// Whether there are instructions for it at all, on tensor cores or beside them. Everything has fp32 and fp64.
bool computes(const Gpu& gpu, Arithmetic type);
/// "fp16, int8 and int4 on tensor cores, fp32 and fp64 beside them"
std::string arithmetic_of(const Gpu& gpu);

/// Throws Error, with what the GPU supports, where PyTorch refuses the types of `run` on this GPU: fp8 below
/// compute capability 8.9 (torch._scaled_mm), bf16 autocast below 8.0 before 2.3 (torch.amp.autocast_mode, until
/// torch.cuda.is_bf16_supported counted emulation).
void refuse_arithmetic(const RunConfig& run, const Gpu& gpu);
/// Sentences without an end for what PyTorch runs in another arithmetic than the one asked for.
std::vector<std::string> emulated_arithmetic(const RunConfig& run, const Gpu& gpu);

}  // namespace gpuplan
