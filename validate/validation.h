// A plan beside what a device says of the same plan run on it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/graph/layer.h"
#include "estimator/plan/report.h"
#include "estimator/report/writers.h"
#include "estimator/spec/model.h"
#include "validate/executor/execution.h"
#include "validate/nvml.h"
#include "validate/step_times.h"

namespace gpuplan {

/// Where a validation is: "memory", step 2 of 5; step 0 is the making of the model.
struct ValidationStage {
  std::string_view what;
  int step = 0, steps = 0;
};

struct ValidationOptions {
  int steps = 5;                    // of the run that reads memory, and timed ones
  bool compares_values = false;     // also runs with poison, and without ever releasing anything, and compares
  bool computes = true;             // false where kernels do nothing: values and times say nothing
  ProcessBytes process_bytes = {};  // may be empty
  /// Called before every kernel; what it throws ends the validation.
  std::function<void(const ValidationStage&)> progress = {};
};

/// Bytes by the plan and by the device.
struct ValidationRow {
  std::string name;   // "peak_allocated"
  std::string label;  // "peak allocated"
  std::int64_t predicted_bytes = 0, measured_bytes = 0;
  bool counts = true;  // against the tolerance
  std::int64_t error_bytes() const { return predicted_bytes - measured_bytes; }
  /// Of what was measured.
  double error() const;
};

/// A phase of a settled step.
struct PhaseMemory {
  Phase phase = Phase::start;
  PhaseRow predicted, measured;
  std::int64_t device_bytes = 0;              // in use of the whole device when the phase ended
  std::optional<std::int64_t> process_bytes;  // by NVML
};

/// What the device had in use before the run.
struct MemoryBefore {
  std::int64_t device_bytes = 0;              // in all
  std::optional<std::int64_t> process_bytes;  // of this process, by NVML
  std::optional<std::int64_t> other_bytes() const;
  std::int64_t context_bytes = 0;  // the CUDA context; with other programs' where NVML does not tell them apart
  std::int64_t library_bytes = 0;  // what loading cuBLASLt and cuDNN took
  /// Of the process, or of the whole device where it is not known.
  std::int64_t bytes() const { return process_bytes.value_or(device_bytes); }
};

/// What memory was for when it ran out.
struct RanOut {
  WithinMemory measured, predicted;  // predicted.runs: by the plan it would not have run out
  std::int64_t free_bytes = 0;       // of the device before the run
  bool same = false;                 // the allocation that the plan names
};

struct Validation {
  DeviceDescription device;
  Report plan;
  bool computes = true;
  std::vector<ValidationRow> rows;
  std::vector<PhaseMemory> phases;
  MemoryBefore before;
  /// What the driver says beyond what it said before the run and the allocator's segments.
  std::int64_t unaccounted_bytes = 0;
  std::string peak_predicted, peak_measured;  // "backward of layer4.2.1"
  std::vector<double> losses;                 // a step each; empty where kernels do nothing
  std::optional<StepTimes> times;
  std::optional<bool> values_equal;  // of compares_values
  std::string values_not_compared;   // why not
  std::vector<std::string> remarks;  // Device::remarks()
  std::optional<RanOut> ran_out;
  std::vector<Suggestion> suggestions;  // what runs where this ran out of memory; for who asked to fill in

  /// It ran, every row that counts is within so much of what was measured, the peak is where it was said, and the
  /// values are equal where they were to be compared.
  bool holds(double tolerance) const;
};

/// Throws Error (environment) where the device cannot run an operation, with all of them; what the device throws else.
/// The device must be new: what it has before the run is its context's and its libraries'.
Validation validate(Device& device, const Model& model, Catalog catalog, const RunConfig& run, const Gpu& gpu,
                    const ValidationOptions& options);

/// What the table of times has a row for.
enum class TimesBy : std::uint8_t { nothing, layer, operation, op_class };
struct TimesTable {
  TimesBy by = TimesBy::nothing;
  int max_rows = 20;  // 0: all
};

std::string validation_text(const Validation& validation, double tolerance, const TextStyle& style,
                            const TimesTable& table = {});
/// Schema gpuplan.validate/1.
std::string validation_json(const Validation& validation, double tolerance, std::string_view version);
std::string validation_json_schema();

}  // namespace gpuplan
