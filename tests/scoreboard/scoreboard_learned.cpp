// Models learned at batches 4, 8 and 12 by tests/shadow_scripts/learned.py, planned at batch 64 without PyTorch, beside
// what `gpuplan shadow` reported of the script at batch 64 (learned/figures.tsv; learned/README.md says how both are
// made).
#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "estimator/trace/plan_trace.h"
#include "tests/support/recorded_phases.h"
#include "tools/process/read_source.h"

namespace gpuplan {
namespace {

// The first step's figures are also of what comes before it.
Reading peak_of_step(const TracePlan& plan, int step) {
  Reading peak;
  for (const TraceRow& row : plan.rows) {
    if (row.step != step && !(step == 1 && row.step == 0)) continue;
    peak.requested_bytes = std::max(peak.requested_bytes, row.peak.requested_bytes);
    peak.allocated_bytes = std::max(peak.allocated_bytes, row.peak.allocated_bytes);
    peak.reserved_bytes = std::max(peak.reserved_bytes, row.peak.reserved_bytes);
  }
  return peak;
}

}  // namespace

Scored score_learned(const std::string& root) {
  const std::string folder = root + "/tests/learned/";
  std::ifstream lines(folder + "figures.tsv");
  if (!lines) throw std::runtime_error("there is no tests/learned/figures.tsv");
  Scored scored;
  std::string line, name, last;
  TracePlan plan;
  std::getline(lines, line);  // the heading
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    int step = 0;
    Reading peak;
    fields >> name >> step >> peak.requested_bytes >> peak.allocated_bytes >> peak.reserved_bytes;
    if (!fields) throw std::runtime_error("tests/learned/figures.tsv: a line of other columns: " + line);
    if (name != last)
      plan = plan_trace(read_learned_trace(*read_file_source(folder + name + ".trace")), std::vector<std::int64_t>{64},
                        {});
    last = name;
    score_reading(scored.rows,
                  {.suite = "learned h200", .run = name, .quantity = "step " + std::to_string(step) + ".peak"}, peak,
                  peak_of_step(plan, step));
  }
  return scored;
}

}  // namespace gpuplan
