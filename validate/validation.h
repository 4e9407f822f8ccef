// A plan beside what a device says of the same plan run on it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "estimator/graph/layer.h"
#include "estimator/report/report.h"
#include "estimator/spec/model.h"
#include "validate/executor/walk.h"

namespace gpuplan {

struct ValidationOptions {
  int steps = 5;
  bool compares_values = false;  // also runs with poison, and without ever releasing anything, and compares
  bool computes = true;          // false where kernels do nothing: values and times say nothing
};

/// Bytes by the plan and by the device.
struct ValidationRow {
  std::string name;   // "peak_allocated"
  std::string label;  // "peak allocated"
  std::int64_t predicted_bytes = 0, measured_bytes = 0;
  std::int64_t error_bytes() const { return predicted_bytes - measured_bytes; }
  /// Of what was measured.
  double error() const;
};

/// What memory was for when it ran out.
struct RanOut {
  WithinMemory measured;
  bool predicted = false;  // the plan says so too, of the same allocation
};

struct Validation {
  DeviceDescription device;
  Report plan;
  bool computes = true;
  std::vector<ValidationRow> rows;  // each counts against the tolerance
  /// Parts of what the driver says: the context, the libraries and other programs before the run, and what neither they
  /// nor the allocator's segments explain.
  std::int64_t before_bytes = 0, unaccounted_bytes = 0;
  std::string peak_predicted, peak_measured;  // "backward of layer4.2.1"
  std::vector<double> losses;                 // a step each; empty where kernels do nothing
  std::vector<double> step_milliseconds;      // without the first two steps
  std::optional<bool> values_equal;           // of compares_values
  std::optional<RanOut> ran_out;

  /// Every row's error is within so much of what was measured, the peak is where it was said, values are equal.
  bool holds(double tolerance) const;
};

/// Throws Error (environment) where the device cannot run an operation, with all of them; what the device throws else.
/// The device must be new: what it has before the run is its context's.
Validation validate(Device& device, const Model& model, Catalog catalog, const RunConfig& run, const Gpu& gpu,
                    const ValidationOptions& options);

struct TextStyle;
std::string validation_text(const Validation& validation, double tolerance, const TextStyle& style);
/// Schema gpuplan.validate/1.
std::string validation_json(const Validation& validation, double tolerance, std::string_view version);
std::string validation_json_schema();

}  // namespace gpuplan
