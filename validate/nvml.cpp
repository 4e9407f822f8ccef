#include "validate/nvml.h"

#include <unistd.h>

#include <memory>
#include <vector>

#include "validate/nvml_library.h"

namespace gpuplan {
namespace {

// Of nvml.h, which comes with CUDA's toolkit and may be missing where this is built: nvmlProcessInfo_t of the functions
// whose names end in _v2 and _v3, and those functions.
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_gpu_memory;  // all bits set: not available
  unsigned gpu_instance_id, compute_instance_id;
};
constexpr int kInsufficientSize = 7;  // NVML_ERROR_INSUFFICIENT_SIZE
constexpr unsigned long long kNotAvailable = ~0ULL;

struct Library {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*handle_by_bus)(const char*, void**) = nullptr;
  int (*compute_processes)(void*, unsigned*, ProcessInfo*) = nullptr;
};

std::optional<Library> load() {
  void* const file = open_nvml();
  if (file == nullptr) return std::nullopt;
  Library l;
  const bool whole = find_in_nvml(file, l.init, "nvmlInit_v2") && find_in_nvml(file, l.shutdown, "nvmlShutdown") &&
                     find_in_nvml(file, l.handle_by_bus, "nvmlDeviceGetHandleByPciBusId_v2") &&
                     (find_in_nvml(file, l.compute_processes, "nvmlDeviceGetComputeRunningProcesses_v3") ||
                      find_in_nvml(file, l.compute_processes, "nvmlDeviceGetComputeRunningProcesses_v2"));
  return whole && l.init() == kNvmlSuccess ? std::optional(l) : std::nullopt;
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
      if (status == kNvmlSuccess) break;
    }
    if (status != kNvmlSuccess) return std::nullopt;
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
  if (library && library->handle_by_bus(pci_bus_id.c_str(), &device) == kNvmlSuccess)
    nvml = std::make_shared<Nvml>(*library, device);
  return [nvml]() -> std::optional<std::int64_t> { return nvml ? nvml->process_bytes() : std::nullopt; };
}

}  // namespace gpuplan
