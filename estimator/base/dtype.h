// Storage types, with PyTorch's names.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gpuplan {

enum class DType : std::uint8_t { fp32, fp64, fp16, bf16, int64, int32, uint8, int8, boolean };

constexpr bool is_half(DType t) { return t == DType::fp16 || t == DType::bf16; }

constexpr std::int64_t size_of(DType t) {
  switch (t) {
    case DType::fp64:
    case DType::int64: return 8;
    case DType::fp32:
    case DType::int32: return 4;
    case DType::fp16:
    case DType::bf16: return 2;
    case DType::uint8:
    case DType::int8:
    case DType::boolean: return 1;
  }
  return 0;
}

constexpr bool is_floating(DType t) {
  return t == DType::fp32 || t == DType::fp64 || t == DType::fp16 || t == DType::bf16;
}

/// The type that sums of `t` are kept in (at::acc_type on CUDA): fp32 for half types.
constexpr DType accumulate_type(DType t) { return t == DType::fp16 || t == DType::bf16 ? DType::fp32 : t; }

/// torch.finfo(t).min.
constexpr double lowest(DType t) {
  return t == DType::fp16   ? -65504.0
         : t == DType::bf16 ? -0x1.FEp127
         : t == DType::fp32 ? -0x1.FFFFFEp127
                            : -0x1.FFFFFFFFFFFFFp1023;
}

/// "fp32", "int64", "bool"; from_name also reads PyTorch's "float32", "bfloat16", "half", ...
std::string_view name_of(DType t);
std::optional<DType> dtype_from_name(std::string_view name);

}  // namespace gpuplan
