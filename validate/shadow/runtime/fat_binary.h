// The container in which nvcc embeds a program's code: one image for each architecture, PTX beside them, mostly
// compressed. The layout is not documented by NVIDIA; what is read here is checked against cuobjdump's listing in the
// tests.
#pragma once

#include <cstddef>
#include <vector>

namespace gpuplan::shadow {

/// The cubin that the driver would take for compute capability `major`.`minor` out of `code`: what
/// __cudaRegisterFatBinary or cuModuleLoadData was given, a container (in nvcc's wrapper or without) or a cubin itself.
/// Of a container's, the highest of the same major version that is not newer. Empty where there is none (the driver
/// would compile PTX) or where it cannot be unpacked (zstd without a libzstd.so.1 on the machine).
std::vector<std::byte> cubin_for(const void* code, int major, int minor);

}  // namespace gpuplan::shadow
