#include "validate/live_gpus.h"

#include <array>
#include <memory>
#include <utility>

#include "estimator/error.h"
#include "validate/nvml_library.h"

namespace gpuplan {
namespace {

// Of nvml.h: nvmlMemory_t.
struct Memory {
  unsigned long long total, free, used;
};

struct Library {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle)(unsigned, void**) = nullptr;
  int (*name)(void*, char*, unsigned) = nullptr;
  int (*memory)(void*, Memory*) = nullptr;
  int (*mig_mode)(void*, unsigned* now, unsigned* after_reset) = nullptr;  // of drivers since 2020
};

constexpr unsigned kMigOn = 1;  // NVML_DEVICE_MIG_ENABLE

Error no_gpu(const std::string& why) {
  return Error("no GPU of this machine can be listed: " + why, ErrorKind::environment)
      .help("gpuplan gpus, without --live, lists those that are known");
}

std::vector<LiveGpu> list(const Library& l) {
  constexpr unsigned kNameBytes = 96;  // NVML_DEVICE_NAME_V2_BUFFER_SIZE
  unsigned count = 0;
  if (l.count(&count) != kNvmlSuccess) throw no_gpu("NVML does not say how many there are");
  std::vector<LiveGpu> gpus;
  for (unsigned i = 0; i < count; ++i) {
    void* device = nullptr;
    std::array<char, kNameBytes> name{};
    Memory memory{};
    LiveGpu gpu;
    gpu.index = i;
    if (l.handle(i, &device) == kNvmlSuccess) {
      if (l.name(device, name.data(), kNameBytes - 1) == kNvmlSuccess) gpu.name = name.data();
      if (l.memory(device, &memory) == kNvmlSuccess) {
        gpu.total_bytes = static_cast<std::int64_t>(memory.total);
        gpu.free_bytes = static_cast<std::int64_t>(memory.free);
      }
      unsigned mode = 0, after_reset = 0;
      gpu.mig = l.mig_mode != nullptr && l.mig_mode(device, &mode, &after_reset) == kNvmlSuccess && mode == kMigOn;
    }
    gpus.push_back(std::move(gpu));
  }
  if (gpus.empty()) throw no_gpu("NVML finds none");
  return gpus;
}

}  // namespace

std::vector<LiveGpu> live_gpus() {
  void* const file = open_nvml();
  if (file == nullptr) throw no_gpu("libnvidia-ml.so.1, which comes with NVIDIA's driver, is not here");
  Library l;
  const bool whole = find_in_nvml(file, l.init, "nvmlInit_v2") && find_in_nvml(file, l.shutdown, "nvmlShutdown") &&
                     find_in_nvml(file, l.count, "nvmlDeviceGetCount_v2") &&
                     find_in_nvml(file, l.handle, "nvmlDeviceGetHandleByIndex_v2") &&
                     find_in_nvml(file, l.name, "nvmlDeviceGetName") &&
                     find_in_nvml(file, l.memory, "nvmlDeviceGetMemoryInfo");
  if (!whole) throw no_gpu("libnvidia-ml.so.1 lacks a function");
  find_in_nvml(file, l.mig_mode, "nvmlDeviceGetMigMode");
  if (l.init() != kNvmlSuccess) throw no_gpu("NVML does not start; is the driver loaded?");
  const std::unique_ptr<const Library, void (*)(const Library*)> at_end(&l, [](const Library* o) { o->shutdown(); });
  return list(l);
}

}  // namespace gpuplan
