// Memory of NCCL on each rank, outside PyTorch's allocator: buffers for every channel to every neighbour.
#pragma once

#include <cstdint>

#include "estimator/device/gpu.h"
#include "estimator/distributed/strategy.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// Of one communicator after its first all-reduce: 544 MiB of two ranks and 688 MiB of more, as measured of every group
/// of four A100s with NVLink under PyTorch (github.com/NVIDIA/nccl/issues/964, whose MB are read as MiB). It depends on
/// the number of channels, which grows with the links' speed, so that PCIe takes less; on NCCL_BUFFSIZE and
/// NCCL_MAX_NCHANNELS; and on the release, of which those since 2.22 connect what is used only. So it is assumed, and
/// --runtime says otherwise.
constexpr std::int64_t kNcclBytesOfTwo = std::int64_t{544} << 20, kNcclBytesOfMore = std::int64_t{688} << 20;

/// Of one at most: a third of the 6 GB that three took together after all-reduces, read as GiB
/// (github.com/NVIDIA/nccl/issues/864).
constexpr std::int64_t kMostNcclBytes = std::int64_t{2} << 30;

/// Of the communicators of a rank: one for each of data, tensor, pipeline and expert parallelism that has several
/// ranks, one of those that share experts, and for data parallelism two where HSDP has replicas of shards.
std::int64_t nccl_bytes(const Strategy& strategy);
/// The same at most.
std::int64_t most_nccl_bytes(const Strategy& strategy);

/// CUDA context and libraries: those of --runtime, or of the GPU's file, or assumed, and what NCCL keeps of several.
std::int64_t context_bytes(const RunConfig& run, const Gpu& gpu, const Strategy& strategy = {});

}  // namespace gpuplan
