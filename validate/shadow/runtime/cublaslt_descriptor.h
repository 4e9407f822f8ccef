// cuBLASLt's descriptors, and a multiplication as the launch log has it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace gpuplan::shadow::cublaslt {

constexpr std::size_t kLargestAttribute = 8;  // bytes: every attribute is an int32, an int64 or a pointer
constexpr std::size_t kRows = 2;              // CUBLASLT_MATRIX_LAYOUT_ROWS
constexpr std::size_t kColumns = 3;           // CUBLASLT_MATRIX_LAYOUT_COLS
constexpr int kAttributes = 64;               // more than any descriptor has (39 of CUDA 13's matmul)

/// A layout, a multiplication, a transform, a preference, an emulation: what was set, by attribute. What was not is 0,
/// as most defaults are.
struct Descriptor {
  std::array<std::uint64_t, kAttributes> attributes{};
};

/// "0x7f0012345600"
std::string hexadecimal(const void* pointer);
/// "a 0x7f0012345600 512x64 65536 bytes": where a matrix lies, its rows and columns, and how far it reaches with all of
/// its batch; 0 bytes where its order is one of the tiled ones.
std::string describe(const char* name, const void* matrix, const Descriptor& layout);
/// " op TN": cublasOperation_t of a and b; then " bias 0x7f0012345600 1024 bytes" where one is added.
std::string describe_operation(const Descriptor& operation, const Descriptor& d);

}  // namespace gpuplan::shadow::cublaslt
