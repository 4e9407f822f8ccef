#include "validate/live_gpus.h"

#include <array>
#include <memory>
#include <utility>

#include "estimator/base/error.h"
#include "validate/nvml_library.h"

namespace gpuplan {
namespace {

// Of nvml.h: nvmlMemory_t.
struct Memory {
  unsigned long long total, free, used;
};

struct NvmlOfGpus {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle)(unsigned, void**) = nullptr;
  int (*name)(void*, char*, unsigned) = nullptr;
  int (*memory)(void*, Memory*) = nullptr;
  int (*uuid)(void*, char*, unsigned) = nullptr;
  // Of drivers since 2020:
  int (*mig_mode)(void*, unsigned* now, unsigned* after_reset) = nullptr;
  int (*most_slices)(void*, unsigned*) = nullptr;
  int (*slice)(void*, unsigned, void** device) = nullptr;
};

constexpr unsigned kMigOn = 1;  // NVML_DEVICE_MIG_ENABLE

Error no_gpu(const std::string& why) {
  return Error("no GPU of this machine can be listed: " + why, ErrorKind::environment)
      .help("gpuplan gpus, without --live, lists those that are known");
}

LiveGpu describe(const NvmlOfGpus& l, void* device) {
  constexpr unsigned kNameBytes = 96;  // NVML_DEVICE_NAME_V2_BUFFER_SIZE, NVML_DEVICE_UUID_V2_BUFFER_SIZE
  std::array<char, kNameBytes> text{};
  Memory memory{};
  LiveGpu gpu;
  if (l.name(device, text.data(), kNameBytes - 1) == kNvmlSuccess) gpu.name = text.data();
  text = {};
  if (l.uuid != nullptr && l.uuid(device, text.data(), kNameBytes - 1) == kNvmlSuccess) gpu.uuid = text.data();
  if (l.memory(device, &memory) == kNvmlSuccess) {
    gpu.total_bytes = static_cast<std::int64_t>(memory.total);
    gpu.free_bytes = static_cast<std::int64_t>(memory.free);
  }
  return gpu;
}

// A GPU has handles for its slices only while MIG is on; numbers between them may be free.
std::vector<LiveGpu> slices_of(const NvmlOfGpus& l, void* device) {
  std::vector<LiveGpu> slices;
  unsigned most = 0;
  if (l.most_slices == nullptr || l.slice == nullptr || l.most_slices(device, &most) != kNvmlSuccess) return slices;
  for (unsigned i = 0; i < most; ++i) {
    void* slice = nullptr;
    if (l.slice(device, i, &slice) != kNvmlSuccess) continue;
    slices.push_back(describe(l, slice));
    slices.back().slice = i;
  }
  return slices;
}

bool is_sliced(const NvmlOfGpus& l, void* device) {
  unsigned mode = 0, after_reset = 0;
  return l.mig_mode != nullptr && l.mig_mode(device, &mode, &after_reset) == kNvmlSuccess && mode == kMigOn;
}

std::vector<LiveGpu> list(const NvmlOfGpus& l) {
  unsigned count = 0;
  if (l.count(&count) != kNvmlSuccess) throw no_gpu("NVML does not say how many there are");
  std::vector<LiveGpu> gpus;
  for (unsigned i = 0; i < count; ++i) {
    void* device = nullptr;
    const bool there = l.handle(i, &device) == kNvmlSuccess;
    LiveGpu gpu = there ? describe(l, device) : LiveGpu{};
    gpu.mig = there && is_sliced(l, device);
    std::vector<LiveGpu> slices = gpu.mig ? slices_of(l, device) : std::vector<LiveGpu>{};
    gpu.slices = static_cast<unsigned>(slices.size());
    gpus.push_back(std::move(gpu));
    gpus.insert(gpus.end(), slices.begin(), slices.end());
    for (std::size_t g = gpus.size() - slices.size() - 1; g < gpus.size(); ++g) gpus[g].index = i;
  }
  if (gpus.empty()) throw no_gpu("NVML finds none");
  return gpus;
}

}  // namespace

std::vector<LiveGpu> live_gpus() {
  void* const file = open_nvml();
  if (file == nullptr) throw no_gpu("libnvidia-ml.so.1, which comes with NVIDIA's driver, is not here");
  NvmlOfGpus l;
  const bool whole = find_in_nvml(file, l.init, "nvmlInit_v2") && find_in_nvml(file, l.shutdown, "nvmlShutdown") &&
                     find_in_nvml(file, l.count, "nvmlDeviceGetCount_v2") &&
                     find_in_nvml(file, l.handle, "nvmlDeviceGetHandleByIndex_v2") &&
                     find_in_nvml(file, l.name, "nvmlDeviceGetName") &&
                     find_in_nvml(file, l.memory, "nvmlDeviceGetMemoryInfo");
  if (!whole) throw no_gpu("libnvidia-ml.so.1 lacks a function");
  find_in_nvml(file, l.uuid, "nvmlDeviceGetUUID");
  find_in_nvml(file, l.mig_mode, "nvmlDeviceGetMigMode");
  find_in_nvml(file, l.most_slices, "nvmlDeviceGetMaxMigDeviceCount");
  find_in_nvml(file, l.slice, "nvmlDeviceGetMigDeviceHandleByIndex");
  if (l.init() != kNvmlSuccess) throw no_gpu("NVML does not start; is the driver loaded?");
  const std::unique_ptr<const NvmlOfGpus, void (*)(const NvmlOfGpus*)> at_end(
      &l, [](const NvmlOfGpus* o) { o->shutdown(); });
  return list(l);
}

}  // namespace gpuplan
