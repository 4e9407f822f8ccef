// What `nvidia-smi --query-gpu` can be asked, by the names of NVIDIA's own program, and what the session's GPUs answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "validate/shadow/session.h"

namespace gpuplan::shadow {

constexpr const char* kNotAvailable = "[N/A]";  // nvidia-smi's words for what a GPU does not tell

/// The GPUs of a session at one moment.
struct Machine {
  Settings settings;
  const SessionCounters* counters = nullptr;

  /// Bytes in use on a GPU: of all processes, contexts included, and what the driver keeps for itself.
  std::int64_t used(int device) const;
  std::int64_t total() const;
};

/// One value: `unit` follows it in CSV ("81920 MiB"), unless nounits is given; empty where it has none.
struct FieldValue {
  std::string text, unit;
};

/// The value of `name` on a GPU; absent where nvidia-smi has no field of that name.
std::optional<FieldValue> gpu_field(const Machine& machine, int device, std::string_view name);

/// A process with a context on a GPU.
struct GpuProcess {
  int device = 0, pid = 0;
  std::int64_t used = 0;
  std::string name;
};
std::vector<GpuProcess> processes_of(const Machine& machine);
/// As gpu_field(), of --query-compute-apps.
std::optional<FieldValue> process_field(const Machine& machine, const GpuProcess& process, std::string_view name);

std::string bus_of(int device);
std::int64_t mebibytes(std::int64_t bytes);

}  // namespace gpuplan::shadow
