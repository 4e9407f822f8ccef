#include "validate/shadow/host/progress.h"

#include <sys/mman.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "estimator/base/format.h"
#include "validate/shadow/host/read_session.h"

namespace gpuplan::shadow {
namespace {

constexpr std::chrono::seconds kInterval(10);

}  // namespace

Progress::Progress(std::string session)
    : session_(std::move(session)),
      counters_(map_counters(session_)),
      next_(std::chrono::steady_clock::now() + kInterval) {}

Progress::~Progress() { munmap(counters_, sizeof(SessionCounters)); }

void Progress::read_new_events() {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(session_, ignored)) {
    if (entry.path().extension() != ".jsonl") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    std::streamoff& from = read_[entry.path().string()];
    file.seekg(from);
    std::string text(std::istreambuf_iterator<char>(file), {});
    text.erase(text.rfind('\n') + 1);  // the last line may still be growing
    from += static_cast<std::streamoff>(text.size());
    SessionRecord session;
    ProcessRecord process;
    read_events(text, process, session);
    graph_ = std::max(graph_, process.compiled.graphs);
    for (const auto& [device, record] : process.devices)
      for (const StepRecord& step : record.steps) step_ = std::max(step_, step.index);
  }
}

std::string Progress::line() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return "";
  next_ = now + kInterval;
  std::int64_t most = 0;
  for (const auto& word : counters_->fullest) most = std::max(most, moment_of(word).bytes);
  if (most == 0) return "";
  read_new_events();
  std::string out = step_ > 0 ? "step " + format_count(step_) + ", " : "";
  if (graph_ > graph_said_) out += "compiling graph " + format_count(graph_) + ", ";
  graph_said_ = graph_;
  return out + "needs " + format_bytes(most) + " so far";
}

}  // namespace gpuplan::shadow
