// What a compiled kernel says of itself: registers, shared memory, parameters. Read from the ELF image ("cubin") that
// nvcc makes for each architecture; its sections are those that `cuobjdump -elf` prints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace gpuplan::shadow {

struct KernelParameter {
  unsigned ordinal = 0;
  unsigned offset = 0;  // bytes from the first parameter
  unsigned bytes = 0;
};

struct KernelResources {
  int registers = 0;                        // a thread
  std::size_t static_shared = 0;            // bytes a block
  std::size_t local = 0;                    // bytes a thread: its stack frame, spilled registers included
  int max_threads = 1024;                   // a block: __launch_bounds__, else the device's limit
  std::vector<KernelParameter> parameters;  // by ordinal
};

/// Kernels of a cubin by mangled name; empty where `image` is not one (anything out of bounds ends the reading).
std::unordered_map<std::string, KernelResources> read_cubin(std::span<const std::byte> image);

}  // namespace gpuplan::shadow
