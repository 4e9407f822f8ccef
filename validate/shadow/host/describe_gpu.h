// A GPU of the catalog as the CUDA runtime describes it to a program.
#pragma once

#include <string>
#include <vector>

#include "estimator/device/gpu.h"
#include "validate/shadow/session.h"

namespace gpuplan::shadow {

/// What the technical specifications of a compute capability fix, for every GPU of it.
struct CapabilityLimits {
  int capability = 0;          // 10 * major + minor
  int shared_per_sm = 0;       // bytes
  int shared_per_block = 0;    // bytes that a block may have after opting in
  int reserved_per_block = 0;  // bytes of shared memory that the system takes of each block
  int blocks_per_sm = 0;
};
/// Those of the newest listed capability that is not newer than `capability`.
CapabilityLimits limits_of(int capability);

struct DescribedGpu {
  GpuDescription description;
  std::vector<std::string> assumed;  // sentences on figures that the GPU's file lacks
};
/// Figures that the file lacks are taken from `stand_in` and said.
DescribedGpu describe(const Gpu& gpu, const Gpu& stand_in);

/// Bytes that cudaMalloc can hand out: totalGlobalMem where it is known, what nvidia-smi reports otherwise.
std::int64_t capacity_of(const Gpu& gpu);

}  // namespace gpuplan::shadow
