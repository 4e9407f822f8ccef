// What the program finds in libgpuplan_cuda.so, which it loads for `validate` and `calibrate` only: without it, and on
// a machine without CUDA, everything else works. Both are built together, by one compiler: an Error may be thrown from
// one to the other.
#pragma once

#include <cstddef>

namespace gpuplan {

class Device;

/// Names in the module; kModuleAbi changes with Device, Kernel and everything in them.
constexpr const char* kModuleFile = "libgpuplan_cuda.so";
constexpr const char* kModuleAbiSymbol = "gpuplan_cuda_abi";
constexpr const char* kModuleOpenSymbol = "gpuplan_cuda_open";
constexpr int kModuleAbi = 5;

/// extern "C" int gpuplan_cuda_abi(): kModuleAbi of the module's own sources.
using ModuleAbi = int (*)();
/// extern "C" Device* gpuplan_cuda_open(int ordinal, char* why, std::size_t size): the GPU with its libraries' handles
/// made, for `delete`; null with the reason in `why` (one line, ended by 0) where there is no GPU or no driver.
using ModuleOpen = Device* (*)(int ordinal, char* why, std::size_t size);

}  // namespace gpuplan
