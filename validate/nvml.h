// What NVIDIA's management library says of this process's memory on a GPU, as nvidia-smi shows it. The library comes
// with the driver and is loaded when it is asked: estimates need neither.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace gpuplan {

/// Bytes that this process has on the GPU, its CUDA context included; nothing where the library does not know: in a
/// container it may see other process ids than the process does.
using ProcessBytes = std::function<std::optional<std::int64_t>()>;

/// Of the GPU on that PCI bus ("0000:3b:00.0"). Always callable; answers nothing where libnvidia-ml.so.1 or a function
/// that it needs is missing.
ProcessBytes process_bytes_by_nvml(const std::string& pci_bus_id);

}  // namespace gpuplan
