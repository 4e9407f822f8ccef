// The GPUs of a machine, as its driver lists them, beside what is known of them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "estimator/device/gpu.h"

namespace gpuplan {

struct LiveGpuRow {
  std::int64_t index = 0;                        // the driver's
  std::optional<std::int64_t> slice;             // of that GPU, where it is one of its MIG slices
  std::string uuid;                              // "": not said
  std::string name;                              // the driver's; "": not said
  std::int64_t total_bytes = 0, free_bytes = 0;  // as reported; 0: not said
  bool sliced = false;                           // a process gets a slice of it only
  std::int64_t slices = 0;                       // of those that are rows
  std::optional<Gpu> gpu;                        // what a process gets all of, where the table has it
};

/// What --gpu takes for it: a name, or the size of a slice; "" where neither is known.
std::string gpu_argument(const LiveGpuRow& row);

/// A row each, with how to plan with it.
std::string live_gpus_text(std::span<const LiveGpuRow> rows);
std::string live_gpus_md(std::span<const LiveGpuRow> rows);
/// gpuplan.gpus/1, of each besides "index", "slice", "uuid", "driver_name", "reported_bytes", "free_bytes", "mig" and
/// "argument"; what the table does not have, or a process does not get all of, has nulls for figures.
std::string live_gpus_json(std::span<const LiveGpuRow> rows);
std::string live_gpus_csv(std::span<const LiveGpuRow> rows);

}  // namespace gpuplan
