// Memory of NCCL on each rank, outside PyTorch's allocator: buffers for every channel to every neighbour.
#pragma once

#include <cstdint>

#include "estimator/device/gpu.h"
#include "estimator/distributed/nccl_buffers.h"
#include "estimator/distributed/strategy.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// Of one communicator of GPUs with NVLink at most, where the rule of nccl_buffers.h says less: a third of the 6 GB
/// that three took together, on GPUs and by operations that are not published, read as GiB
/// (github.com/NVIDIA/nccl/issues/864).
constexpr std::int64_t kMostNcclBytes = std::int64_t{2} << 30;

/// Of the communicators of a rank, as PyTorch makes them, one for each process group that is used: data, tensor,
/// pipeline and expert parallelism that has several ranks, those that share experts, a context, and for data
/// parallelism two where HSDP has replicas of shards. Tagged assumed wherever it is shown: published readings are of
/// one communicator of A100s (docs/several-gpus.md).
NcclBuffers nccl_buffers(const Strategy& strategy, const Gpu& gpu, PyTorchVersion pytorch);

/// CUDA context and libraries: those of --runtime, or of the GPU's file, or assumed, and what NCCL keeps of several.
std::int64_t context_bytes(const RunConfig& run, const Gpu& gpu, const Strategy& strategy = {});

}  // namespace gpuplan
