#include "tools/importers/onnx/tensor_content.h"

#include <bit>
#include <cstring>
#include <type_traits>

#include "onnx_schema/onnx.pb.h"

namespace gpuplan::onnx_import {
namespace {

double half_to_double(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const double fraction = (bits & 1023) / 1024.0;
  double value = exponent == 0 ? fraction * 0x1p-14 : exponent == 31 ? 65536.0 : (1 + fraction);
  if (exponent > 0 && exponent < 31) value *= std::bit_cast<double>(std::uint64_t(exponent - 15 + 1023) << 52);
  return (bits >> 15) != 0 ? -value : value;
}

template <class T>
void append_raw(const std::string& raw, Content& content) {
  for (std::size_t at = 0; at + sizeof(T) <= raw.size(); at += sizeof(T)) {
    T element;
    std::memcpy(&element, raw.data() + at, sizeof(T));
    if constexpr (std::is_floating_point_v<T>)
      content.reals.push_back({static_cast<double>(element), static_cast<double>(element)});
    else
      content.integers.emplace_back(static_cast<std::int64_t>(element));
  }
}

void append_half(const std::string& raw, bool brain, Content& content) {
  for (std::size_t at = 0; at + 2 <= raw.size(); at += 2) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, raw.data() + at, 2);
    const double value = brain ? std::bit_cast<float>(std::uint32_t{bits} << 16) : half_to_double(bits);
    content.reals.push_back({value, value});
  }
}

void read_raw(const std::string& raw, DType type, Content& content) {
  switch (type) {
    case DType::fp32: return append_raw<float>(raw, content);
    case DType::fp64: return append_raw<double>(raw, content);
    case DType::fp16: return append_half(raw, false, content);
    case DType::bf16: return append_half(raw, true, content);
    case DType::int64: return append_raw<std::int64_t>(raw, content);
    case DType::int32: return append_raw<std::int32_t>(raw, content);
    case DType::int8: return append_raw<std::int8_t>(raw, content);
    case DType::uint8:
    case DType::boolean: return append_raw<std::uint8_t>(raw, content);
  }
}

}  // namespace

// TensorProto.DataType; what ONNX added later than the schema is known by its number.
std::optional<DType> type_of(int type) {
  switch (type) {
    case 1: return DType::fp32;
    case 2:
    case 17:  // the types of 8 bits, float8e4m3fn and its kin
    case 18:
    case 19:
    case 20: return DType::uint8;
    case 3: return DType::int8;
    case 6: return DType::int32;
    case 7: return DType::int64;
    case 9: return DType::boolean;
    case 10: return DType::fp16;
    case 11: return DType::fp64;
    case 16: return DType::bf16;
    default: return std::nullopt;
  }
}

std::optional<Content> content_of(const onnx::TensorProto& t, DType type, std::int64_t elements) {
  if (elements > static_cast<std::int64_t>(kMaxContent)) return std::nullopt;
  Content c;
  c.real = is_floating(type);
  if (t.has_raw_data()) {
    read_raw(t.raw_data(), type, c);
  } else if (c.real) {
    for (const float f : t.float_data()) c.reals.push_back({f, f});
    for (const double d : t.double_data()) c.reals.push_back({d, d});
    if (type == DType::fp16)
      for (const std::int32_t i : t.int32_data()) {
        const double value = half_to_double(static_cast<std::uint16_t>(i));
        c.reals.push_back({value, value});
      }
  } else {
    for (const std::int32_t i : t.int32_data()) c.integers.emplace_back(i);
    for (const std::int64_t i : t.int64_data()) c.integers.emplace_back(i);
  }
  if (static_cast<std::int64_t>(c.size()) != elements) return std::nullopt;
  return c;
}

}  // namespace gpuplan::onnx_import
