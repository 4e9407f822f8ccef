#include "tools/options/shadow_options.h"

#include <CLI/CLI.hpp>
#include <filesystem>

#include "estimator/base/format.h"
#include "estimator/device/find_gpu.h"
#include "tools/importers/import.h"
#include "tools/options/kept_file.h"
#include "tools/options/run_options.h"
#include "tools/options/words.h"
#include "validate/shadow/host/describe_gpu.h"

namespace gpuplan {
namespace {

constexpr const char* kAssumedGpu = "a100-80gb";
constexpr std::int64_t kMostRanks = 1'000'000;
constexpr std::int64_t kLearnedSteps = 3;  // the first makes the optimizer's state, the third is like all after it

std::int64_t size_of(const char* flag, const std::string& text, std::int64_t least = 1) {
  const std::optional<std::int64_t> bytes = size_in_bytes(text);
  if (!bytes || *bytes < least)
    throw Error(std::string(flag) + " expects a size" + (least > 0 ? " above 0" : "") + " such as \"24 GiB\", not \"" +
                    text + "\"",
                ErrorKind::usage);
  return *bytes;
}

void refuse_both(bool one, bool other, const char* words) {
  if (one && other) throw Error(words, ErrorKind::usage);
}

void refuse_contradictions(const ShadowOptions& o) {
  refuse_both(!o.steps.empty(), o.until_stable,
              "--steps and --until-stable both end the script: give only one of them");
  refuse_both(!o.gpus.empty(), !o.world.empty(),
              "--gpus runs every rank, --world runs one rank of many: give only one of them");
  refuse_both(o.learn.empty(), !o.vary.empty(), "--vary needs --learn FILE");
  refuse_both(o.world.empty(), !o.rank.empty(), "--rank needs --world");
}

// A size is the A100's description with that much memory; no name is the A100 itself.
Gpu gpu_of(const ShadowOptions& o, const Gpu& assumed) {
  RunOptions run;
  run.gpu = o.gpu;
  std::optional<Gpu> gpu = load_gpu(run);
  if (!gpu) return assumed;
  if (!size_in_bytes(o.gpu)) return *gpu;
  Gpu limited = assumed;
  limited.title += " with " + o.gpu;
  limited.memory_bytes = gpu->memory_bytes;
  limited.cuda_total_bytes = gpu->memory_bytes;
  return limited;
}

Gpu assumed_device() {
  const std::vector<Gpu> gpus = gpu_table();
  return *find_gpu(gpus, kAssumedGpu);
}

void set_ranks(const ShadowOptions& o, shadow::Settings& settings) {
  if (!o.gpus.empty()) settings.devices = static_cast<int>(whole_number("--gpus", o.gpus, 1, shadow::kMaxDevices));
  if (settings.devices > 1) settings.peers = shadow::Peers::real;
  if (o.world.empty()) return;
  settings.peers = shadow::Peers::imagined;
  settings.world = static_cast<int>(whole_number("--world", o.world, 1, kMostRanks));
  if (!o.rank.empty()) settings.rank = static_cast<int>(whole_number("--rank", o.rank, 0, settings.world - 1));
}

void set_capacity(const ShadowOptions& o, ShadowRun& run) {
  if (o.capacity.empty()) return;
  const std::int64_t bytes = size_of("--capacity", o.capacity);
  std::int64_t& capacity = run.settings.gpu.total_global_mem;
  if (bytes > capacity)
    run.warnings.push_back("--capacity " + o.capacity + " is more than " + run.gpu.title + " has (" +
                           format_bytes(capacity) + ")");
  capacity = bytes;
}

// An absolute path, in a folder that is there: the script may go elsewhere, and must not run in vain.
std::string file_to_write(const char* flag, const std::string& name, bool force, std::string_view own) {
  if (name.empty()) return "";
  refuse_to_replace(flag, name, force, own);
  const std::filesystem::path path = std::filesystem::absolute(name);
  std::error_code ignored;
  if (!std::filesystem::is_directory(path.parent_path(), ignored) || std::filesystem::is_directory(path, ignored))
    throw Error(std::string(flag) + " " + name + ": cannot be written there", ErrorKind::environment);
  if (path.string().find('\n') != std::string::npos)
    throw Error(std::string(flag) + ": the name has a line break", ErrorKind::usage);
  return path.string();
}

}  // namespace

void add_shadow_options(CLI::App& command, ShadowOptions& o) {
  const auto add = [&](const char* group, const char* names, std::string& value, const char* type, const char* text) {
    command.add_option(names, value, text)->type_name(type)->group(group);
  };
  add("GPU", "-d,--gpu,--device", o.gpu, "NAME|FILE|SIZE", "GPU that the script sees (A100 80 GB)");
  add("GPU", "--gpus", o.gpus, "N", "Number of GPUs that the script sees (1)");
  add("GPU", "--world", o.world, "N", "Runs one process as one rank of N; the other ranks are simulated");
  add("GPU", "--rank", o.rank, "R", "Rank of that process (0)");
  add("GPU", "--capacity", o.capacity, "SIZE", "Memory that cudaMalloc can allocate, instead of the GPU's own");
  add("GPU", "--runtime", o.runtime, "SIZE", "Memory of each process's CUDA context and libraries (512 MiB)");
  add("Run", "--steps", o.steps, "N", "Ends the script after N optimizer steps");
  command
      .add_flag("--until-stable", o.until_stable, "Ends the script once two optimizer steps in a row change nothing")
      ->group("Run");
  command.add_flag("--no-compile", o.no_compile, "Makes torch.compile() return its argument unchanged")->group("Run");
  add("Run", "--scratch", o.scratch, "full|no-cudnn", "Whether cuDNN convolutions get workspaces (full)");
  add("Run", "--segments", o.segments, "rising|driver",
      "Where cudaMalloc places memory: above what came before, or by the driver's rule, as read off an H200 (rising)");
  add("Run", "--events", o.events, "prompt|late",
      "When queued GPU work completes: at once, or when the host synchronizes; the true reserved bytes lie between "
      "(prompt)");
  add("Run", "--copy-limit", o.copy_limit, "SIZE", "Skips copies larger than this (1 MiB)");
  add("Run", "--values", o.values, "N|off",
      "Computes the values of tensors of up to N elements whose inputs are known (262,144)");
  add("Run", "--seed", o.seed, "N", "Seed of the random numbers among them (0)");
  add("Run", "--routing", o.routing, "drawn|balanced|worst",
      "Which experts a router chooses: at random, all equally often, or the same for all tokens (drawn)");
  add("Result", "--max-peak", o.max_peak, "SIZE", "Exits with 1 if PyTorch's peak allocated memory is larger");
  add("Result", "--snapshot", o.snapshot, "FILE", "Writes PyTorch's memory snapshot, for pytorch.org/memory_viz");
  add("Learn", "--learn", o.learn, "FILE",
      "Runs the command once per --vary value, and writes a trace for gpuplan plan");
  add("Learn", "--learn-as", o.learn_as, "TEXT", "What plans of the trace name as the command (the command)");
  command.add_option("--vary", o.vary, "Values for {NAME} in the command; give twice for two variables")
      ->type_name("NAME=V,V,V")
      ->group("Learn");
  add("Result", "--launches", o.launches, "FILE", "Writes every kernel launch and library call, tab-separated");
  command.add_option("words", o.stray_words)->group("");  // to be told apart from unknown flags
  add_output_options(command, o.output);
}

ShadowRun shadow_run(const ShadowOptions& o) {
  refuse_contradictions(o);
  const Gpu assumed = assumed_device();
  ShadowRun run{.gpu = gpu_of(o, assumed), .settings = {}, .max_peak_bytes = {}, .assumed = {}, .warnings = {}};
  shadow::DescribedGpu described = shadow::describe(run.gpu, assumed);
  run.settings.gpu = described.description;
  run.assumed = std::move(described.assumed);
  if (o.gpu.empty()) run.warnings.push_back("no --gpu: " + run.gpu.title + " is assumed");
  set_capacity(o, run);
  run.settings.context_bytes =
      o.runtime.empty() ? run.gpu.context_bytes.value_or(kAssumedContextBytes) : size_of("--runtime", o.runtime, 0);
  set_ranks(o, run.settings);
  if (!o.steps.empty()) run.settings.steps = whole_number("--steps", o.steps, 1, 1'000'000'000);
  run.settings.until_stable = o.until_stable;
  run.settings.learn = !file_to_write("--learn", o.learn, o.output.force, "a trace").empty();
  if (run.settings.learn && o.steps.empty()) run.settings.steps = kLearnedSteps;
  run.settings.no_compile = o.no_compile;
  const std::string scratch = o.scratch.empty() ? "full" : o.scratch;
  run.settings.cudnn_workspaces = choose<bool>("--scratch", scratch, {{"full", true}, {"no-cudnn", false}});
  const std::string segments = o.segments.empty() ? "rising" : o.segments;
  run.settings.driver_segments = choose<bool>("--segments", segments, {{"rising", false}, {"driver", true}});
  const std::string events = o.events.empty() ? "prompt" : o.events;
  run.settings.events_lag = choose<bool>("--events", events, {{"prompt", false}, {"late", true}});
  if (!o.copy_limit.empty()) run.settings.copy_limit = size_of("--copy-limit", o.copy_limit);
  if (!o.values.empty()) run.settings.values = o.values == "off" ? 0 : whole_number("--values", o.values, 1, 1 << 24);
  if (!o.seed.empty()) run.settings.seed = whole_number("--seed", o.seed, 0, 1'000'000'000);
  using shadow::Routing;
  run.settings.routing =
      choose<Routing>("--routing", o.routing.empty() ? "drawn" : o.routing,
                      {{"drawn", Routing::drawn}, {"balanced", Routing::balanced}, {"worst", Routing::worst}});
  if (!o.max_peak.empty()) run.max_peak_bytes = size_of("--max-peak", o.max_peak);
  run.settings.snapshot = file_to_write("--snapshot", o.snapshot, o.output.force, describe(FileKind::pickle));
  run.settings.record_launches = !file_to_write("--launches", o.launches, o.output.force, "").empty();
  return run;
}

}  // namespace gpuplan
