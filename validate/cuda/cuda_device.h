// The GPU as a Device. One thread uses it, and one stream: the legacy default one, as PyTorch does unless told
// otherwise.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "validate/cuda/kernels/launch.h"
#include "validate/cuda/lacks.h"
#include "validate/cuda/segments.h"
#include "validate/executor/device.h"

struct CUevent_st;

namespace gpuplan::cuda {

class Products;
class Convolutions;
class Recurrences;

/// Of the kernels' partial sums: one page, which cudaMalloc takes for any size below.
constexpr std::int64_t kPartialBytes = std::int64_t{2} << 20;

class CudaDevice final : public Device {
 public:
  /// Makes the GPU's context the calling thread's, loads cuBLASLt and cuDNN and takes kPartialBytes. Throws Error.
  explicit CudaDevice(int ordinal);
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;
  ~CudaDevice() override;

  std::uint64_t allocate(std::int64_t bytes) override { return segments_.allocate(bytes); }
  void release(std::uint64_t address, std::int64_t) override { segments_.release(address); }
  std::uint64_t reserve(std::int64_t bytes) override { return segments_.reserve(bytes); }
  bool map(std::uint64_t address, std::int64_t bytes) override { return segments_.map(address, bytes); }
  void unmap(std::uint64_t address, std::int64_t bytes) override { segments_.unmap(address, bytes); }

  std::string refusal(const Kernel& kernel) const override;
  void run(const Kernel& kernel) override;
  void update(const OptimizerConfig& config, std::int64_t step, std::span<const ParameterUpdate> parameters) override;
  void clip_gradients(std::span<const KernelTensor> gradients) override;
  void unscale_gradients(std::span<const KernelTensor> gradients, const ScalerValues& values) override;
  void update_scale(const ScalerValues& values) override;
  void fill_bytes(void* address, std::int64_t bytes, unsigned char value) override;
  void copy_to_device(void* to, const void* from, std::int64_t bytes) override;
  void copy_to_host(void* to, const void* from, std::int64_t bytes) override;
  void* allocate_pinned(std::int64_t bytes) override;
  void release_pinned(void* memory) override;
  void synchronize() override;
  DeviceMemory memory() override;
  DeviceDescription description() const override;
  std::vector<std::string> remarks() const override;
  int mark() override;
  double milliseconds(int from, int to) override;
  void forget_marks() override { used_marks_ = 0; }
  void release_all() override;

 private:
  int ordinal_;
  std::int64_t context_bytes_ = 0;
  Segments segments_;
  LaunchContext launch_;
  std::unique_ptr<Products> products_;
  std::unique_ptr<Convolutions> convolutions_;
  std::unique_ptr<Recurrences> recurrences_;
  Lacks lacks_;
  std::vector<CUevent_st*> marks_;  // events are made once and recorded again
  std::size_t used_marks_ = 0;
};

}  // namespace gpuplan::cuda
