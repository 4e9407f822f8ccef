#include "tools/smi/fields.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <fstream>

namespace gpuplan::shadow {
namespace {

std::string mib(std::int64_t bytes) { return std::to_string(mebibytes(bytes)); }

std::string now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm local{};
  std::array<char, 32> text{};
  localtime_r(&seconds, &local);
  return {text.data(), std::strftime(text.data(), text.size(), "%Y/%m/%d %H:%M:%S.000", &local)};
}

using Answer = std::string (*)(const Machine& machine, int device);
struct Field {
  std::string_view name, other;  // the second may be empty
  const char* unit;
  Answer answer;
};

// No kernel runs, so that a GPU is never busy.
constexpr std::array kFields = std::to_array<Field>({
    {"timestamp", "", "", [](const Machine&, int) { return now(); }},
    {"driver_version", "", "", [](const Machine&, int) { return std::string(kDriverVersion); }},
    {"count", "", "", [](const Machine& m, int) { return std::to_string(m.settings.devices); }},
    {"name", "gpu_name", "", [](const Machine& m, int) { return m.settings.gpu.name; }},
    {"index", "", "", [](const Machine&, int device) { return std::to_string(device); }},
    {"uuid", "gpu_uuid", "", [](const Machine&, int device) { return uuid_of(device); }},
    {"pci.bus_id", "gpu_bus_id", "", [](const Machine&, int device) { return bus_of(device); }},
    {"compute_cap", "", "",
     [](const Machine& m, int) {
       return std::to_string(m.settings.gpu.major) + "." + std::to_string(m.settings.gpu.minor);
     }},
    {"memory.total", "", "MiB", [](const Machine& m, int) { return mib(m.total()); }},
    {"memory.reserved", "", "MiB", [](const Machine& m, int) { return mib(m.settings.gpu.reserved_memory); }},
    {"memory.used", "", "MiB", [](const Machine& m, int device) { return mib(m.used(device)); }},
    {"memory.free", "", "MiB", [](const Machine& m, int device) { return mib(m.total() - m.used(device)); }},
    {"utilization.gpu", "", "%", [](const Machine&, int) { return std::string("0"); }},
    {"utilization.memory", "", "%", [](const Machine&, int) { return std::string("0"); }},
    {"clocks.max.sm", "clocks.max.graphics", "MHz",
     [](const Machine& m, int) { return std::to_string(m.settings.gpu.clock_rate / 1000); }},
    {"clocks.max.mem", "clocks.max.memory", "MHz",
     [](const Machine& m, int) { return std::to_string(m.settings.gpu.memory_clock_rate / 1000); }},
    {"compute_mode", "", "", [](const Machine&, int) { return std::string("Default"); }},
    {"persistence_mode", "", "", [](const Machine&, int) { return std::string("Enabled"); }},
    {"display_active", "", "", [](const Machine&, int) { return std::string("Disabled"); }},
    {"display_mode", "", "", [](const Machine&, int) { return std::string("Disabled"); }},
});

// Fields of a GPU that is there: measured, or of its board. (nvidia-smi --help-query-gpu.)
constexpr std::array<std::string_view, 21> kMeasured = {"serial",
                                                        "gpu_serial",
                                                        "vbios_version",
                                                        "pstate",
                                                        "fan.speed",
                                                        "temperature.gpu",
                                                        "temperature.memory",
                                                        "power.draw",
                                                        "power.limit",
                                                        "enforced.power.limit",
                                                        "power.max_limit",
                                                        "clocks.sm",
                                                        "clocks.gr",
                                                        "clocks.mem",
                                                        "clocks.current.sm",
                                                        "clocks.current.memory",
                                                        "mig.mode.current",
                                                        "mig.mode.pending",
                                                        "ecc.mode.current",
                                                        "pcie.link.gen.current",
                                                        "pcie.link.width.current"};

}  // namespace

std::int64_t mebibytes(std::int64_t bytes) { return bytes >> 20; }

std::int64_t Machine::total() const { return settings.gpu.total_global_mem + settings.gpu.reserved_memory; }

std::int64_t Machine::used(int device) const {
  return std::min(used_on(*counters, device) + settings.gpu.reserved_memory, total());
}

std::string bus_of(int device) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "00000000:%02X:00.0", device + 1);
  return text.data();
}

std::optional<FieldValue> gpu_field(const Machine& machine, int device, std::string_view name) {
  for (const Field& field : kFields)
    if (name == field.name || (!field.other.empty() && name == field.other))
      return FieldValue{field.answer(machine, device), field.unit};
  if (std::ranges::find(kMeasured, name) != kMeasured.end()) return FieldValue{kNotAvailable, ""};
  return std::nullopt;
}

std::vector<GpuProcess> processes_of(const Machine& machine) {
  std::vector<GpuProcess> found;
  for (int device = 0; device < machine.settings.devices; ++device) {
    for (const ProcessCounters& process : machine.counters->processes) {
      const ProcessDeviceCounters& there = process.devices[device];
      if (process.pid == 0 || there.context == 0) continue;
      GpuProcess entry{.device = device, .pid = process.pid, .used = there.used + there.context, .name = {}};
      std::ifstream file("/proc/" + std::to_string(entry.pid) + "/cmdline");
      if (!std::getline(file, entry.name, '\0')) entry.name = "[Not Found]";
      found.push_back(entry);
    }
  }
  return found;
}

std::optional<FieldValue> process_field(const Machine& machine, const GpuProcess& process, std::string_view name) {
  if (name == "pid") return FieldValue{std::to_string(process.pid), ""};
  if (name == "process_name" || name == "name") return FieldValue{process.name, ""};
  if (name == "used_memory" || name == "used_gpu_memory") return FieldValue{mib(process.used), "MiB"};
  if (name == "gpu_name" || name == "gpu_uuid" || name == "gpu_bus_id" || name == "timestamp")
    return gpu_field(machine, process.device, name);
  return std::nullopt;
}

}  // namespace gpuplan::shadow
