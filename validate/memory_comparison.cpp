#include "validate/memory_comparison.h"

#include <algorithm>

namespace gpuplan {
namespace {

const PhaseRow* row_of(const std::vector<PhaseRow>& rows, bool steady, Phase phase) {
  const auto found =
      std::ranges::find_if(rows, [&](const PhaseRow& r) { return r.steady == steady && r.phase == phase; });
  return found == rows.end() ? nullptr : &*found;
}

Reading highest(const std::vector<PhaseRow>& rows) {
  Reading peak;
  for (const PhaseRow& r : rows) {
    if (!r.steady) continue;
    peak.allocated_bytes = std::max(peak.allocated_bytes, r.peak.allocated_bytes);
    peak.reserved_bytes = std::max(peak.reserved_bytes, r.peak.reserved_bytes);
  }
  return peak;
}

std::vector<ValidationRow> allocator_rows(const std::vector<PhaseRow>& planned, const LoopReplay& measured) {
  std::vector<ValidationRow> rows;
  const auto add = [&](const char* name, const char* label, bool steady, Phase phase) {
    const PhaseRow* p = row_of(planned, steady, phase);
    const PhaseRow* m = row_of(measured.phases, steady, phase);
    if (p != nullptr && m != nullptr) rows.push_back({name, label, p->live.allocated_bytes, m->live.allocated_bytes});
  };
  add("model_and_batch", "model and batch", false, Phase::start);
  add("after_forward", "after forward", true, Phase::forward);
  add("after_backward", "after backward", true, Phase::backward);
  add("after_optimizer", "after optimizer step", true, Phase::optimizer);
  const Reading p = highest(planned), m = highest(measured.phases);
  rows.push_back({"peak_allocated", "peak allocated", p.allocated_bytes, m.allocated_bytes});
  rows.push_back({"peak_reserved", "peak reserved", p.reserved_bytes, m.reserved_bytes});
  return rows;
}

std::int64_t used(const DeviceMemory& m) { return m.total_bytes - m.free_bytes; }

using ProcessReadings = std::vector<std::optional<std::int64_t>>;

// Of the last training step, the settled one.
std::vector<PhaseMemory> phases_of(const std::vector<PhaseRow>& planned, const ExecutionResult& measured,
                                   const ProcessReadings& process) {
  std::vector<PhaseMemory> phases;
  const int last = measured.readings.empty() ? 0 : measured.readings.back().training_step;
  for (std::size_t i = 0; i < measured.readings.size(); ++i) {
    const DeviceReading& r = measured.readings[i];
    const PhaseRow* p = row_of(planned, true, r.phase);
    const PhaseRow* m = row_of(measured.replay.phases, true, r.phase);
    if (r.training_step != last || p == nullptr || m == nullptr) continue;
    // Forward to backward end once a micro-batch; the last one is told.
    std::erase_if(phases, [&](const PhaseMemory& earlier) { return earlier.phase == r.phase; });
    phases.push_back({r.phase, *p, *m, used(r.memory), i < process.size() ? process[i] : std::nullopt});
  }
  return phases;
}

}  // namespace

void compare_memory(Validation& v, const std::vector<PhaseRow>& planned, const ExecutionResult& measured,
                    const ProcessReadings& process) {
  v.rows = allocator_rows(planned, measured.replay);
  v.phases = phases_of(planned, measured, process);
  const ValidationRow reserved = v.rows.back();
  const bool of_process = v.before.process_bytes.has_value();
  std::int64_t most = v.before.bytes();
  for (std::size_t i = 0; i < measured.readings.size(); ++i)
    most =
        std::max(most, of_process && i < process.size() ? process[i].value_or(0) : used(measured.readings[i].memory));
  v.unaccounted_bytes = most - v.before.bytes() - reserved.measured_bytes;
  // An assumed context is no prediction, and other programs have their memory on the device too.
  v.rows.push_back({of_process ? "whole_process" : "whole_device", of_process ? "whole process (NVML)" : "whole device",
                    reserved.predicted_bytes + v.plan.peak.context_bytes, most,
                    of_process && v.plan.peak.context_confidence != Confidence::assumed});
}

}  // namespace gpuplan
