#include "validate/nvml.h"

#include <dlfcn.h>
#include <unistd.h>

#include <memory>
#include <vector>

namespace gpuplan {
namespace {

// Of nvml.h, which comes with CUDA's toolkit and may be missing where this is built: nvmlProcessInfo_t of the functions
// whose names end in _v2 and _v3, and those functions.
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_gpu_memory;  // all bits set: not available
  unsigned gpu_instance_id, compute_instance_id;
};
constexpr int kSuccess = 0, kInsufficientSize = 7;
constexpr unsigned long long kNotAvailable = ~0ULL;

struct Library {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*handle_by_bus)(const char*, void**) = nullptr;
  int (*compute_processes)(void*, unsigned*, ProcessInfo*) = nullptr;
};

template <class Function>
bool find(void* library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

// The library stays loaded: so does the driver that it talks to.
std::optional<Library> load() {
  void* const file = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) return std::nullopt;
  Library l;
  const bool whole = find(file, l.init, "nvmlInit_v2") && find(file, l.shutdown, "nvmlShutdown") &&
                     find(file, l.handle_by_bus, "nvmlDeviceGetHandleByPciBusId_v2") &&
                     (find(file, l.compute_processes, "nvmlDeviceGetComputeRunningProcesses_v3") ||
                      find(file, l.compute_processes, "nvmlDeviceGetComputeRunningProcesses_v2"));
  return whole && l.init() == kSuccess ? std::optional(l) : std::nullopt;
}

class Nvml {
 public:
  Nvml(const Library& library, void* device) : library_(library), device_(device) {}
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml() { library_.shutdown(); }

  std::optional<std::int64_t> process_bytes() const {
    unsigned count = 16;
    std::vector<ProcessInfo> processes;
    int status = kInsufficientSize;
    for (int tries = 0; status == kInsufficientSize && tries < 8; ++tries, count *= 2) {
      processes.assign(count, {});
      status = library_.compute_processes(device_, &count, processes.data());
      if (status == kSuccess) break;
    }
    if (status != kSuccess) return std::nullopt;
    processes.resize(count);
    for (const ProcessInfo& p : processes)
      if (p.pid == static_cast<unsigned>(getpid()) && p.used_gpu_memory != kNotAvailable)
        return static_cast<std::int64_t>(p.used_gpu_memory);
    return std::nullopt;
  }

 private:
  Library library_;
  void* device_;
};

}  // namespace

ProcessBytes process_bytes_by_nvml(const std::string& pci_bus_id) {
  const std::optional<Library> library = load();
  void* device = nullptr;
  std::shared_ptr<Nvml> nvml;
  if (library && library->handle_by_bus(pci_bus_id.c_str(), &device) == kSuccess)
    nvml = std::make_shared<Nvml>(*library, device);
  return [nvml]() -> std::optional<std::int64_t> { return nvml ? nvml->process_bytes() : std::nullopt; };
}

}  // namespace gpuplan
