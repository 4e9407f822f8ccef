#include "tests/host_device/host_device.h"

#include <cstdlib>
#include <cstring>

#include "estimator/base/error.h"
#include "tests/host_device/operation.h"
#include "tests/host_device/optimizer.h"

namespace gpuplan {
namespace {

void* pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): the allocator counts in addresses
}

const host::Operation* find(Operator op) {
  for (const auto operations :
       {host::pointwise_operations(), host::pointwise_backward_operations(), host::product_operations(),
        host::convolution_operations(), host::normalisation_operations(), host::pooling_operations(),
        host::attention_operations(), host::loss_operations(), host::movement_operations(),
        host::reduction_operations(), host::resampling_operations(), host::group_norm_operations(),
        host::pointwise_loss_operations(), host::indexing_operations(), host::routing_operations(),
        host::recurrent_operations()})
    for (const host::Operation& o : operations)
      if (o.op == op) return &o;
  return nullptr;
}

}  // namespace

HostDevice::~HostDevice() { HostDevice::release_all(); }

void HostDevice::release_all() {
  for (const auto& [address, bytes] : segments_) std::free(pointer(address));
  segments_.clear();
  used_ = 0;
}

std::uint64_t HostDevice::allocate(std::int64_t bytes) {
  if (bytes > bytes_ - used_) return 0;
  void* const memory = std::calloc(static_cast<std::size_t>(bytes), 1);
  if (memory == nullptr) return 0;
  const auto address = reinterpret_cast<std::uint64_t>(memory);
  segments_[address] = bytes;
  used_ += bytes;
  return address;
}

void HostDevice::release(std::uint64_t address, std::int64_t bytes) {
  if (segments_.erase(address) == 0) throw Error("a segment is released that is none");
  used_ -= bytes;
  std::free(pointer(address));
}

std::string HostDevice::refusal(const Kernel& kernel) const {
  const host::Operation* o = find(kernel.op);
  if (o == nullptr) return "the host device has no such operation";
  const std::size_t reads = kernel.reads.size(), attributes = kernel.attributes.size();
  if (o->either && reads >= o->reads && reads - o->reads + attributes >= o->attributes) return "";
  if (attributes < o->attributes) return "has no number";
  if (reads < o->reads) return "is given " + std::to_string(reads) + " tensors";
  return "";
}

void HostDevice::run(const Kernel& kernel) {
  if (const std::string why = refusal(kernel); !why.empty()) throw Error(why);
  find(kernel.op)->run(kernel);
}

void HostDevice::update(const OptimizerConfig& config, std::int64_t step, std::span<const ParameterUpdate> parameters) {
  for (const ParameterUpdate& p : parameters) host::update(config, step, p);
}

void HostDevice::clip_gradients(std::span<const KernelTensor> gradients) { host::clip(gradients); }
void HostDevice::unscale_gradients(std::span<const KernelTensor> gradients, const ScalerValues& values) {
  host::unscale(gradients, values);
}
void HostDevice::update_scale(const ScalerValues& values) { host::update_scale(values); }

// No tensor of a small model is as large as the workspaces of cuBLAS and cuDNN, which nothing reads here: of those only
// the ends are poisoned, since an execution that keeps everything has hundreds.
void HostDevice::fill_bytes(void* address, std::int64_t bytes, unsigned char value) {
  constexpr std::int64_t kWorkspace = std::int64_t{4} << 20, kEnd = std::int64_t{1} << 20;
  if (value == 0 || bytes < kWorkspace) {
    std::memset(address, value, static_cast<std::size_t>(bytes));
    return;
  }
  std::memset(address, value, kEnd);
  std::memset(static_cast<std::byte*>(address) + (bytes - kEnd), value, kEnd);
}
void HostDevice::copy_to_device(void* to, const void* from, std::int64_t bytes) {
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}
void HostDevice::copy_to_host(void* to, const void* from, std::int64_t bytes) {
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

}  // namespace gpuplan
