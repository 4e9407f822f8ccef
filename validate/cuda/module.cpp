#include "validate/cuda/module.h"

#include <cstdio>
#include <exception>
#include <memory>

#include "validate/cuda/cuda_device.h"

#define GPUPLAN_EXPORT __attribute__((visibility("default")))

extern "C" {
GPUPLAN_EXPORT int gpuplan_cuda_abi();
GPUPLAN_EXPORT gpuplan::Device* gpuplan_cuda_open(int ordinal, char* why, std::size_t size);

int gpuplan_cuda_abi() { return gpuplan::kModuleAbi; }

gpuplan::Device* gpuplan_cuda_open(int ordinal, char* why, std::size_t size) {
  try {
    return std::make_unique<gpuplan::cuda::CudaDevice>(ordinal).release();
  } catch (const std::exception& e) {
    std::snprintf(why, size, "%s", e.what());
  }
  return nullptr;
}
}
