#include "validate/shadow/runtime/cudnn_operands.h"

#include <cstdio>

namespace gpuplan::shadow::cudnn {

std::string place(const char* name, const void* data, std::uint64_t bytes) {
  char text[80];
  std::snprintf(text, sizeof text, "%s 0x%llx %llu bytes", name,
                static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(data)),
                static_cast<unsigned long long>(bytes));
  return text;
}

std::uint64_t extent(const Tensor& t) {
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(t.rank); ++i)
    last += static_cast<std::uint64_t>(t.dimensions[i] - 1) * static_cast<std::uint64_t>(t.strides[i]);
  return (last + 1) * type_bytes(t.type);
}

}  // namespace gpuplan::shadow::cudnn
