// gpuplan_events MODEL [flags of `gpuplan validate`]: runs the plan's training loop on the CUDA module under `gpuplan
// shadow --launches` and compares what happened, event by event, with what the plan says, and every launch with the
// memory of its operation. Exit 0 where all is equal, 1 where it is not, with the first differences.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "estimator/base/error.h"
#include "estimator/graph/build.h"
#include "estimator/schedule/schedule.h"
#include "layers/catalog.h"
#include "tests/cuda/events.h"
#include "tests/cuda/launch_log.h"
#include "tests/cuda/recording_device.h"
#include "tools/answers/planning.h"
#include "tools/options/run_options.h"
#include "tools/process/exit_code.h"
#include "validate/load_device.h"
#include "validate/shadow/session.h"

namespace gpuplan {
namespace {

constexpr int kSteps = 3;
constexpr std::size_t kShown = 5;  // of what is wrong

Gpu gpu_of(const Device& device, const std::optional<Gpu>& named) {
  if (named) return *named;
  for (const Gpu& g : gpu_table())
    if (g.title == device.description().name || g.cuda_name == device.description().name) return g;
  throw Error("the GPU table has no " + device.description().name);
}

void say(const std::string& line) { std::printf("%s\n", line.c_str()); }

bool show(const std::vector<std::string>& wrong, const char* of) {
  for (std::size_t i = 0; i < wrong.size() && i < kShown; ++i) say(std::string("FAIL ") + of + ": " + wrong[i]);
  if (wrong.size() > kShown) say("     and " + std::to_string(wrong.size() - kShown) + " more");
  return wrong.empty();
}

bool same(const std::vector<Event>& planned, const std::vector<Event>& done) {
  const auto [p, d] = std::ranges::mismatch(planned, done);
  if (p == planned.end() && d == done.end()) return true;
  say("FAIL event " + std::to_string(p - planned.begin()) + " of " + std::to_string(planned.size()) + " planned and " +
      std::to_string(done.size()) + " done:");
  say("     planned  " + (p == planned.end() ? "nothing" : text(*p)));
  say("     done     " + (d == done.end() ? "nothing" : text(*d)));
  return false;
}

std::string counted(const std::vector<Event>& events) {
  std::int64_t segments = 0, freed = 0, blocks = 0, kernels = 0;
  for (const Event& e : events) {
    segments += e.kind == Event::Kind::segment || e.kind == Event::Kind::mapped;
    freed += e.kind == Event::Kind::segment_freed || e.kind == Event::Kind::unmapped;
    blocks += e.kind == Event::Kind::block;
    kernels += e.kind == Event::Kind::kernel;
  }
  return std::to_string(events.size()) + " events equal (" + std::to_string(segments) + " segments, " +
         std::to_string(freed) + " of them freed, " + std::to_string(blocks) + " blocks, " + std::to_string(kernels) +
         " operations)";
}

LaunchLimits limits_of_device() {
  const char* const session = std::getenv(shadow::kSessionVariable);
  std::ifstream file(std::string(session != nullptr ? session : "") + "/session");
  const std::string settings{std::istreambuf_iterator<char>(file), {}};
  constexpr std::int64_t kPartialBytes = std::int64_t{2} << 20;  // validate/cuda/cuda_device.h
  return {shadow::read_settings(settings).gpu.shared_mem_per_block_optin, kPartialBytes};
}

int run_events(const RunOptions& options) {
  const Planning planning = prepare(options);
  const std::unique_ptr<Device> device = load_device(0);
  const Gpu gpu = gpu_of(*device, planning.gpu);
  const RankStep rank = make_step(planning.model, make_catalog(), planning.run, gpu, {}, true);
  for (const std::string& reason : refusals(*device, rank)) throw Error(reason, ErrorKind::environment);

  const EventLog planned = planned_events(rank, device->memory().free_bytes, kSteps);
  RecordingDevice recorder(*device);
  const ExecutionResult result = run(recorder, rank, {.poison = true, .reads_losses = false, .steps = kSteps});

  bool good = same(planned.events, recorder.log.events);
  good = show(recorder.wrong, "memory") && good;
  const char* const session = std::getenv(shadow::kSessionVariable);
  std::ifstream log(std::string(session) + "/launches." + std::to_string(getpid()) + ".tsv");
  if (!log) throw Error("run it under gpuplan shadow --launches", ErrorKind::environment);
  const CheckedLaunches checked = check_launches(log, recorder.works, recorder.log.segments_ever, limits_of_device());
  good = show(checked.wrong, "a launch") && good;
  if (!good) return 1;
  std::string without;
  for (const auto& [name, count] : checked.without) without += " " + name + " " + std::to_string(count);
  say(counted(recorder.log.events) + (result.within.out_of_memory ? ", until memory ran out" : ""));
  say(std::to_string(checked.kernels) + " kernels, " + std::to_string(checked.products) + " of cuBLASLt and " +
      std::to_string(checked.convolutions + checked.batch_norms) + " of cuDNN (" + std::to_string(checked.batch_norms) +
      " batch norms) with " + std::to_string(checked.pointers) + " pointers into their own operands" +
      (checked.undescribed > 0 ? ", and " + std::to_string(checked.undescribed) + " of cuDNN that are not described"
                               : "") +
      "; without a launch:" + (without.empty() ? " none" : without));
  return 0;
}

}  // namespace
}  // namespace gpuplan

int main(int argc, char** argv) {
  CLI::App app("Events of a plan on the CUDA module");
  gpuplan::RunOptions options;
  gpuplan::add_run_options(app, options);
  CLI11_PARSE(app, argc, argv);
  try {
    return gpuplan::run_events(options);
  } catch (const gpuplan::Error& e) {
    std::fputs(e.render().c_str(), stderr);
    return gpuplan::exit_code_of(e);
  }
}
