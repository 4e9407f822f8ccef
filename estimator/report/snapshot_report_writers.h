// What gpuplan snapshot prints.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimator/report/text_style.h"
#include "estimator/snapshot/snapshot_report.h"

namespace gpuplan {

struct SnapshotPage {
  std::string file;
  std::string alloc_conf;
  std::vector<SnapshotReport> devices;
  std::vector<std::string> warnings;
};

/// `rows`: lines of code at most, of each list.
std::string snapshot_text(const SnapshotPage& page, const TextStyle& style, std::size_t rows);
/// gpuplan.snapshot/1
std::string snapshot_json(const SnapshotPage& page, std::string_view version);
std::string snapshot_json_schema();
/// A row for each line of code that holds memory at a device's peak, heading first.
std::string snapshot_csv(const SnapshotPage& page);
std::string snapshot_md(const SnapshotPage& page, std::size_t rows);

}  // namespace gpuplan
