// libFuzzer target: lines of NAME=VALUE as flags of `plan` and of `check` with limits, of a small model: an answer or
// an Error, never a crash. Names of files are left out, so that nothing is read.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include "estimator/search/suggestions.h"
#include "estimator/spec/read.h"
#include "layers/catalog.h"
#include "tests/fuzz/fuzz_read.h"
#include "tools/answers/planning.h"
#include "tools/check/one_off.h"
#include "tools/check/plan_check.h"
#include "tools/options/swept_flags.h"
#include "tools/process/read_source.h"

namespace {

using namespace gpuplan;

struct Flags {
  RunOptions run;
  LimitOptions limits;
};

std::string* limit_called(LimitOptions& limits, const std::string& name) {
  if (name == "max-peak") return &limits.max_peak;
  if (name == "max-reserved") return &limits.max_reserved;
  if (name == "max-device") return &limits.max_device;
  if (name == "max-params") return &limits.max_params;
  if (name == "max-flop") return &limits.max_flop;
  if (name == "max-time") return &limits.max_time;
  if (name == "max-cost") return &limits.max_cost;
  return nullptr;
}

void set(Flags& flags, const std::string& name, const std::string& value) {
  if (is_gpu_file(value)) return;
  if (std::string* const limit = limit_called(flags.limits, name))
    *limit = value;
  else if (name == "fits")
    flags.limits.fits.push_back(value);
  else if (name == "set")
    flags.run.set.push_back(value);
  else if (name == "clip-grad-norm")
    flags.run.clip = value;
  else if (name == "weight-decay")
    flags.run.weight_decay = value;
  else if (name == "offload")
    flags.run.offload = value;
  else if (name == "optimizer-in-backward")
    flags.run.optimizer_in_backward = true;
  else if (name == "labels")
    flags.run.labels = true;
  else if (name.starts_with("set.") || std::ranges::count(swept_run_names(), name) > 0)
    set_flag(flags.run, name, value);
  else
    throw Error("no such flag");
}

Flags read_flags(const std::string& text) {
  Flags flags;
  flags.run.model = "zoo:mlp";
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) throw Error("no value");
    set(flags, line.substr(0, equals), line.substr(equals + 1));
  }
  return flags;
}

void plan_with(const RunOptions& run) {
  const Planning planning = prepare(run);
  const Report report = make_report(planning);
  (void)suggest(planning, report);
}

void check_with(const Flags& flags) {
  const Budget budget = one_off_budget(flags.run, {}, flags.limits);
  CheckPlanner planner(std::nullopt, nullptr, 20'000, false);
  for (const Check& check : budget.checks)
    if (planner.run(check).crashed) std::abort();
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kFewFlags = 512;
  if (size > kFewFlags) return 0;
  read_or_error([&] {
    const Flags flags = read_flags(std::string(reinterpret_cast<const char*>(data), size));
    read_or_error([&] { plan_with(flags.run); });
    if (flags.limits.any()) check_with(flags);
  });
  return 0;
}
