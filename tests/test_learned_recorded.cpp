// Models learned at batches 4, 8 and 12 by tests/shadow_scripts/learned.py, planned at batch 64 without PyTorch, beside
// what `gpuplan shadow` reported of the script at batch 64 (learned/figures.tsv; learned/README.md says how both are
// made). Requested bytes are PyTorch's; allocated and reserved ones within 0.2 %.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "estimator/trace/plan_trace.h"

namespace gpuplan {
namespace {

const std::string kFolder = GPUPLAN_SOURCE_DIR "/tests/learned/";

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE_MESSAGE(file, path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

bool within(std::int64_t planned, std::int64_t recorded) {
  return std::abs(static_cast<double>(planned - recorded)) <= 0.002 * static_cast<double>(recorded);
}

}  // namespace

TEST_CASE("traces learned at small batches give what PyTorch reports at batch 64, step by step") {
  std::istringstream lines(contents(kFolder + "figures.tsv"));
  std::string line, name, last;
  LearnedTrace trace;
  TracePlan plan;
  int rows = 0;
  std::getline(lines, line);  // the heading
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    int step = 0;
    Readings peak;
    fields >> name >> step >> peak.requested_bytes >> peak.allocated_bytes >> peak.reserved_bytes;
    REQUIRE(fields);
    if (name != last) {
      trace = read_learned_trace(Source{name, contents(kFolder + name + ".trace")});
      plan = plan_trace(trace, std::vector<std::int64_t>{64}, {});
      last = name;
    }
    Readings planned;  // the first step's figures are also of what comes before it
    for (const TraceRow& row : plan.rows) {
      if (row.step != step && !(step == 1 && row.step == 0)) continue;
      planned.requested_bytes = std::max(planned.requested_bytes, row.peak.requested_bytes);
      planned.allocated_bytes = std::max(planned.allocated_bytes, row.peak.allocated_bytes);
      planned.reserved_bytes = std::max(planned.reserved_bytes, row.peak.reserved_bytes);
    }
    CAPTURE(line);
    CHECK(planned.requested_bytes == peak.requested_bytes);
    CHECK_MESSAGE(within(planned.allocated_bytes, peak.allocated_bytes), planned.allocated_bytes);
    CHECK_MESSAGE(within(planned.reserved_bytes, peak.reserved_bytes), planned.reserved_bytes);
    ++rows;
  }
  CHECK(rows == 9);  // three models, three steps
}

TEST_CASE("learned traces give back what PyTorch reported of the runs that they were learned from") {
  for (const char* name : {"resnet50", "gpt2", "t5_small"}) {
    const std::string text = contents(kFolder + name + ".trace");
    const LearnedTrace trace = read_learned_trace(Source{name, text});
    CHECK(write_learned_trace(trace) == text);
    for (std::size_t run = 0; run < trace.runs.size(); ++run)
      CHECK(plan_trace(trace, trace.runs[run], {}).peak == trace.peaks[run]);
  }
}

}  // namespace gpuplan
