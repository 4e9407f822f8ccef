// Several elements that are read or written at once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuplan::cuda {

template <class T, int n>
struct alignas(sizeof(T) * n) Packed {
  T values[n];
};

/// Elements of 16 bytes.
template <class T>
constexpr int kPack = 16 / static_cast<int>(sizeof(T));

inline bool aligned(const void* data, std::size_t bytes) { return reinterpret_cast<std::uintptr_t>(data) % bytes == 0; }

}  // namespace gpuplan::cuda
