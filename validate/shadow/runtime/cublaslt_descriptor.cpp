#include "validate/shadow/runtime/cublaslt_descriptor.h"

#include <algorithm>
#include <cstdio>

#include "validate/shadow/runtime/math_library.h"

namespace gpuplan::shadow::cublaslt {
namespace {

// cublasLtMatrixLayoutAttribute_t and cublasLtMatmulDescAttributes_t
constexpr std::size_t kType = 0, kOrder = 1, kLeading = 4, kBatch = 5, kBatchStride = 6;
constexpr std::size_t kTransA = 3, kTransB = 4, kEpilogue = 7, kBias = 8;

std::size_t element_bytes(const Descriptor& layout) {
  return data_type_bytes(static_cast<int>(layout.attributes[kType]));
}

std::uint64_t extent(const Descriptor& layout) {
  const auto value = [&](std::size_t attribute) { return layout.attributes[attribute]; };
  const bool row_major = value(kOrder) == 1;  // CUBLASLT_ORDER_ROW
  if (value(kOrder) > 1 || value(kRows) == 0 || value(kColumns) == 0) return 0;
  const std::uint64_t lines = row_major ? value(kRows) : value(kColumns);
  const std::uint64_t each = row_major ? value(kColumns) : value(kRows);
  const std::uint64_t batch = static_cast<std::uint32_t>(value(kBatch));
  const std::uint64_t before = batch > 1 ? (batch - 1) * value(kBatchStride) : 0;
  return (before + (lines - 1) * value(kLeading) + each) * element_bytes(layout);
}

}  // namespace

std::string hexadecimal(const void* pointer) {
  char text[2 + 16 + 1];
  std::snprintf(text, sizeof(text), "0x%llx",
                static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(pointer)));
  return text;
}

std::string describe(const char* name, const void* matrix, const Descriptor& layout) {
  return std::string(name) + " " + hexadecimal(matrix) + " " + std::to_string(layout.attributes[kRows]) + "x" +
         std::to_string(layout.attributes[kColumns]) + " " + std::to_string(extent(layout)) + " bytes";
}

std::string describe_operation(const Descriptor& operation, const Descriptor& d) {
  const auto letter = [&](std::size_t attribute) {
    return "NTC?"[std::min<std::uint32_t>(static_cast<std::uint32_t>(operation.attributes[attribute]), 3)];
  };
  std::string text = std::string(" op ") + letter(kTransA) + letter(kTransB);
  constexpr std::uint32_t kAddsBias = 4;  // CUBLASLT_EPILOGUE_BIAS, a bit of those that apply a function too
  if ((static_cast<std::uint32_t>(operation.attributes[kEpilogue]) & kAddsBias) == 0) return text;
  // One element a row of d, of its type unless another is set.
  const std::uint64_t bytes = d.attributes[kRows] * element_bytes(d);
  const auto bias = reinterpret_cast<const void*>(static_cast<std::uintptr_t>(operation.attributes[kBias]));
  return text + " bias " + hexadecimal(bias) + " " + std::to_string(bytes) + " bytes";
}

}  // namespace gpuplan::shadow::cublaslt
