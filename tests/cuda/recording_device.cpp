#include "tests/cuda/recording_device.h"

#include <dlfcn.h>

#include "estimator/base/error.h"

namespace gpuplan {
namespace {

constexpr unsigned char kPoison = 0xFF;

std::uint64_t number(const void* address) { return reinterpret_cast<std::uint64_t>(address); }

template <class Function>
Function* of_runtime(const char* name) {
  void* const found = dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) throw Error("run it under gpuplan shadow", ErrorKind::environment);
  return reinterpret_cast<Function*>(found);
}

// From its first element to its last.
Extent extent_of(const KernelTensor& t) {
  std::int64_t last = 0;
  for (int i = 0; i < t.rank; ++i) {
    if (t.sizes[i] == 0) return {};
    last += (t.sizes[i] - 1) * t.strides[i];
  }
  return t.data == nullptr ? Extent{} : Extent{number(t.data), (last + 1) * size_of(t.dtype)};
}

KernelTensor scalar(void* data, DType dtype) {
  KernelTensor t;
  t.data = data;
  t.dtype = dtype;
  return t;
}

// Padding of a struct that a kernel is given holds what the stack had there before: the addresses of an operation long
// gone, unless they are wiped out.
[[gnu::noinline]] void wipe_stack() {
  volatile unsigned char bytes[64 << 10];
  for (volatile unsigned char& b : bytes) b = 0;
}

}  // namespace

std::int64_t shadow_launches() {
  static auto* const get = of_runtime<std::int64_t()>("gpuplan_shadow_launches");
  return get();
}
std::int64_t shadow_used_bytes() {
  static auto* const get = of_runtime<std::int64_t(int)>("gpuplan_shadow_used_bytes");
  return get(0);
}

RecordingDevice::RecordingDevice(Device& device) : device_(device), used_before_(shadow_used_bytes()) {}

// What the runtime counts of cudaMalloc, cudaFree, cuMemMap and their like is what the segments come to.
void RecordingDevice::check_bytes() {
  const std::int64_t used = shadow_used_bytes() - used_before_;
  if (used != log.mapped_bytes)
    wrong.push_back("the runtime has " + std::to_string(used) + " bytes after event " +
                    std::to_string(log.events.size()) + ", the segments " + std::to_string(log.mapped_bytes));
}

std::uint64_t RecordingDevice::allocate(std::int64_t bytes) {
  const std::uint64_t address = device_.allocate(bytes);
  log.segment_came(address, bytes);
  check_bytes();
  return address;
}
void RecordingDevice::release(std::uint64_t address, std::int64_t bytes) {
  log.segment_left(address, bytes);
  device_.release(address, bytes);
  check_bytes();
}
std::uint64_t RecordingDevice::reserve(std::int64_t bytes) {
  const std::uint64_t address = device_.reserve(bytes);
  log.range_came(address, bytes);
  check_bytes();
  return address;
}
bool RecordingDevice::map(std::uint64_t address, std::int64_t bytes) {
  const bool there = device_.map(address, bytes);
  if (there) log.pages(address, bytes, true);
  check_bytes();
  return there;
}
void RecordingDevice::unmap(std::uint64_t address, std::int64_t bytes) {
  log.pages(address, bytes, false);
  device_.unmap(address, bytes);
  check_bytes();
}

void RecordingDevice::check_live(const Extent& extent, const std::string& what) {
  if (extent.bytes == 0) return;
  auto block = blocks_.upper_bound(extent.address);
  if (block != blocks_.begin()) --block;
  if (block == blocks_.end() || !Extent{block->first, block->second}.holds(extent.address, extent.bytes))
    wrong.push_back(what + ": " + std::to_string(extent.bytes) + " bytes lie in no block that is there");
}

template <class Run>
void RecordingDevice::launch(std::string what, const std::vector<KernelTensor>& tensors,
                             std::span<const KernelScratch> scratch, Run run) {
  Work work{std::move(what), shadow_launches(), 0, {}};
  std::vector<std::uint64_t> operands;
  for (const KernelTensor& t : tensors) {
    operands.push_back(number(t.data));
    if (const Extent e = extent_of(t); e.bytes > 0) work.extents.push_back(e);
  }
  for (const KernelScratch& s : scratch) {
    operands.push_back(number(s.data));
    if (s.data != nullptr) work.extents.push_back({number(s.data), s.bytes});
  }
  for (const Extent& e : work.extents) check_live(e, work.what);
  log.kernel(work.what, operands);
  wipe_stack();
  run();
  work.end_launch = shadow_launches();
  works.push_back(std::move(work));
}

void RecordingDevice::run(const Kernel& kernel) {
  std::vector<KernelTensor> tensors;
  for (const auto operands : {kernel.reads, kernel.extra, kernel.writes})
    tensors.insert(tensors.end(), operands.begin(), operands.end());
  launch(std::string(name_of(kernel.op)) + " of " + std::string(kernel.layer), tensors, kernel.scratch,
         [&] { device_.run(kernel); });
}

void RecordingDevice::update(const OptimizerConfig& config, std::int64_t step,
                             std::span<const ParameterUpdate> parameters) {
  std::vector<KernelTensor> tensors;
  for (const ParameterUpdate& p : parameters) {
    tensors.push_back(p.parameter);
    tensors.push_back(p.gradient);
    tensors.insert(tensors.end(), p.states.begin(), p.states.end());
  }
  launch("update " + std::to_string(step), tensors, {}, [&] { device_.update(config, step, parameters); });
}

void RecordingDevice::clip_gradients(std::span<const KernelTensor> gradients) {
  launch("clip", {gradients.begin(), gradients.end()}, {}, [&] { device_.clip_gradients(gradients); });
}

void RecordingDevice::unscale_gradients(std::span<const KernelTensor> gradients, const ScalerValues& values) {
  std::vector<KernelTensor> tensors(gradients.begin(), gradients.end());
  tensors.push_back(scalar(values.scale, DType::fp32));
  tensors.push_back(scalar(values.found_inf, DType::fp32));
  launch("unscale", tensors, {}, [&] { device_.unscale_gradients(gradients, values); });
}

void RecordingDevice::update_scale(const ScalerValues& values) {
  const std::vector<KernelTensor> tensors{scalar(values.scale, DType::fp32),
                                          scalar(values.growth_tracker, DType::int32),
                                          scalar(values.found_inf, DType::fp32)};
  launch("update scale", tensors, {}, [&] { device_.update_scale(values); });
}

void RecordingDevice::fill_bytes(void* address, std::int64_t bytes, unsigned char value) {
  if (value == kPoison) {
    const auto [block, came] = blocks_.try_emplace(number(address), bytes);
    if (!came && block->second != bytes) wrong.emplace_back("a block goes with another size than it came with");
    log.block(number(address), bytes, came);
    if (!came) blocks_.erase(block);
  } else {
    check_live({number(address), bytes}, "a fill");
  }
  device_.fill_bytes(address, bytes, value);
}

void RecordingDevice::copy_to_device(void* to, const void* from, std::int64_t bytes) {
  check_live({number(to), bytes}, "a copy to the device");
  device_.copy_to_device(to, from, bytes);
}
void RecordingDevice::copy_to_host(void* to, const void* from, std::int64_t bytes) {
  check_live({number(from), bytes}, "a copy to the host");
  device_.copy_to_host(to, from, bytes);
}

}  // namespace gpuplan
