// The page of gpuplan snapshot.
#pragma once

#include <string>
#include <vector>

#include "tools/options/output_options.h"

namespace gpuplan {

struct SnapshotQuestion {
  std::vector<std::string> files;
  std::string device, rows;  // flags as written
  std::string command;
  bool strict = false;
};

/// Reads, explains and prints them; returns the exit code. Throws Error.
int print_snapshots(const SnapshotQuestion& question, const OutputOptions& output);

}  // namespace gpuplan
