#include "estimator/base/dtype.h"

#include <array>
#include <utility>

namespace gpuplan {
namespace {

using Named = std::pair<std::string_view, DType>;
constexpr std::array<Named, 21> kTypeNames{{
    {"fp32", DType::fp32},    {"fp64", DType::fp64},    {"fp16", DType::fp16},       {"bf16", DType::bf16},
    {"int64", DType::int64},  {"int32", DType::int32},  {"uint8", DType::uint8},     {"int8", DType::int8},
    {"bool", DType::boolean}, {"float32", DType::fp32}, {"float", DType::fp32},      {"float64", DType::fp64},
    {"double", DType::fp64},  {"float16", DType::fp16}, {"half", DType::fp16},       {"bfloat16", DType::bf16},
    {"long", DType::int64},   {"int", DType::int32},    {"boolean", DType::boolean}, {"i64", DType::int64},
    {"i32", DType::int32},
}};

}  // namespace

std::string_view name_of(DType t) {
  for (const auto& [name, type] : kTypeNames)
    if (type == t) return name;
  return "?";
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const auto& [known, type] : kTypeNames)
    if (known == name) return type;
  return std::nullopt;
}

}  // namespace gpuplan
