// What a kernel allocates for itself while it runs: library workspaces, reduction buffers, sort buffers.
#pragma once

#include <cstdint>

#include "estimator/device/gpu.h"
#include "estimator/operators/primitive.h"
#include "estimator/operators/scratch_program.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// In a scratch program: the step's next output is allocated here.
constexpr std::int64_t kNextOutput = 0;

/// Appends the scratch program of `op` (see Schedule::scratch) to `program`; nothing for most operations, and
/// nothing with Scratch::none. True where it ends in a workspace that cuDNN was not recorded to choose: see
/// cudnn_workspace_at_most().
bool append_scratch(const Primitive& op, const RunConfig& run, const Gpu& gpu, ScratchProgram& program);

/// cuBLAS's workspace in PyTorch, bytes: 32 MiB on compute capability 9.x, 2 * 4096 + 8 * 16 KiB elsewhere
/// (aten/src/ATen/cuda/CublasHandlePool.cpp).
std::int64_t cublas_workspace_bytes(const Gpu& gpu);

/// Releases before 2.15 keep the workspace of each thread's cuBLAS handle after its first product.
constexpr bool keeps_cublas_workspace(PyTorchVersion pytorch) { return pytorch >= 200 && pytorch < 215; }

/// What cuBLASLt works in, for products whose bias it adds: 1 MiB for each call, which some releases keep for each
/// thread, or the workspace of cuBLAS itself. Asked of 2.8, 2.10 to 2.15; between them as the older.
enum class LtWorkspace : std::uint8_t { each_call, kept, of_cublas };
constexpr LtWorkspace lt_workspace(PyTorchVersion pytorch) {
  if (pytorch >= 212 && pytorch < 215) return LtWorkspace::of_cublas;
  return pytorch >= 210 && pytorch < 212 ? LtWorkspace::kept : LtWorkspace::each_call;
}
/// CUBLASLT_WORKSPACE_SIZE's default, 1024 KiB.
inline constexpr std::int64_t kCublasLtWorkspace = 1 << 20;

}  // namespace gpuplan
