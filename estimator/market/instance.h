// What clouds rent: instances with their GPUs, and what an hour cost on a day.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/device/gpu.h"

namespace gpuplan {

struct Instance {
  std::string provider;  // "aws"
  std::string name;      // "g5.xlarge"
  std::string gpu;       // name of a Gpu: "a10g"
  double gpu_count = 1;  // a part of one where it is shared
  std::optional<double> vcpus, host_memory_gib, local_ssd_gb, network_gbps;
  std::string interconnect;             // between its GPUs: "nvlink", "pcie" or ""
  std::optional<double> usd, spot_usd;  // an hour of the instance, Linux; nothing: not found
  std::string region;                   // "" or "all": a list price
  std::string price_date;               // as written: a day, or what bounds it
  std::optional<int> pcie_width;        // lanes of each GPU, where measured
  std::optional<int> most_gpus;         // of one with a GPU: up to so many are rented in one machine, each at its price
  std::string notes, source;
};

/// Rows of a CSV file with the columns of configs/instances/*.csv. Throws Error, with the place: a column that is
/// missing, a GPU that is not among `gpus` (with the nearest name), prices or counts that are not numbers above 0, an
/// instance that is there twice in a region.
std::vector<Instance> read_instances(const Source& source, std::span<const Gpu> gpus);
/// The same as a file has it, heading first.
std::string instances_csv(std::span<const Instance> instances);

}  // namespace gpuplan
