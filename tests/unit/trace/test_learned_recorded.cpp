// Models learned by tests/shadow_scripts/learned.py; the scoreboard has their plans at another batch.
#include <doctest/doctest.h>

#include <fstream>

#include "estimator/trace/plan_trace.h"

namespace gpuplan {
namespace {

const std::string kFolder = GPUPLAN_SOURCE_DIR "/tests/learned/";

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE_MESSAGE(file, path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

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
