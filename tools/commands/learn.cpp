#include "tools/commands/learn.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "estimator/allocator/allocator.h"
#include "estimator/base/format.h"
#include "estimator/trace/align_runs.h"
#include "estimator/trace/plan_trace.h"
#include "tools/files/write_file.h"
#include "tools/options/words.h"

namespace gpuplan {
namespace {

void say(const ShadowOptions& options, const std::string& text) {
  if (!options.output.quiet) write_stderr("gpuplan shadow: " + text + "\n");
}

Error bad_vary(const std::string& text, const std::string& why) {
  return Error("--vary " + text + ": " + why, ErrorKind::usage).help("for example: --vary batch=4,8,12");
}

TraceVariable variable_of(const std::string& text) {
  const std::size_t equals = text.find('=');
  TraceVariable variable{.name = text.substr(0, equals), .values = {}};
  if (equals == std::string::npos || !is_variable_name(variable.name))
    throw bad_vary(text, "expects NAME=VALUE,VALUE,VALUE");
  if (const std::string& name = variable.name; name == "requested" || name == "allocated" || name == "reserved")
    throw bad_vary(text, "that name is reserved in traces");
  for (std::size_t at = equals; at != std::string::npos;) {
    const std::size_t next = text.find(',', at + 1);
    const std::string value = text.substr(at + 1, next == std::string::npos ? next : next - at - 1);
    variable.values.push_back(whole_number("--vary " + variable.name, value, 1, 1'000'000'000));
    at = next;
  }
  std::ranges::sort(variable.values);
  if (const auto twice = std::ranges::adjacent_find(variable.values); twice != variable.values.end())
    throw bad_vary(text, std::to_string(*twice) + " appears twice");
  if (variable.values.size() < 3)
    throw bad_vary(text, "needs at least three values: two determine a linear size, the others verify it");
  return variable;
}

void refuse_other_flags(const ShadowOptions& o) {
  const std::pair<const char*, bool> flags[] = {
      {"--gpus", !o.gpus.empty()},         {"--max-peak", !o.max_peak.empty()},    {"--snapshot", !o.snapshot.empty()},
      {"--launches", !o.launches.empty()}, {"--format", !o.output.format.empty()}, {"-o", !o.output.files.empty()},
      {"--until-stable", o.until_stable}};
  for (const auto& [name, given] : flags)
    if (given)
      throw Error(
          std::string(name) + " and --learn: a trace records one process on one GPU, and gpuplan plan reports on it",
          ErrorKind::usage)
          .help("--world N --rank R records one rank of several");
}

std::string with_values(std::string word, const std::vector<TraceVariable>& variables,
                        const std::vector<std::int64_t>& values) {
  for (std::size_t v = 0; v < variables.size(); ++v) {
    const std::string mark = "{" + variables[v].name + "}", value = std::to_string(values[v]);
    for (std::size_t at = word.find(mark); at != std::string::npos; at = word.find(mark, at + value.size()))
      word.replace(at, mark.size(), value);
  }
  return word;
}

// The only process that used the GPU.
const shadow::ProcessRecord& recorded_process(const std::string& name, const shadow::SessionRecord& session) {
  const shadow::ProcessRecord* found = nullptr;
  for (const shadow::ProcessRecord& process : session.processes) {
    if (process.used.empty()) continue;
    if (found != nullptr)
      throw Error(name + ": several processes use the GPU, and a trace records only one", ErrorKind::environment);
    found = &process;
  }
  if (found == nullptr) throw Error(name + ": the command used no GPU memory", ErrorKind::environment);
  if (found->allocations.empty())
    throw Error(name + ": nothing was recorded of PyTorch's allocator", ErrorKind::environment)
        .help("--learn needs PyTorch, a Python started without -I, -E and -S, and a script that ends normally");
  return *found;
}

std::int64_t outside_of(const shadow::ProcessRecord& process, const RecordedRun& run) {
  std::int64_t held = 0;
  for (const auto& [device, use] : process.used) held += use.peak_bytes;
  return std::max<std::int64_t>(held - run.peak.reserved_bytes, 0);
}

// 0, or the exit code of a run that nothing can be learned from, which is then said.
int failure(const ShadowOptions& options, const std::string& name, const CommandRun& run) {
  for (const shadow::Problem& problem : run.session.problems)
    if (problem.code != 0) {
      say(options, name + ": " + problem.text);
      return problem.code;
    }
  for (const shadow::ProcessRecord& process : run.session.processes)
    if (!process.out_of_memory.empty()) {
      say(options, name + ": the command ran out of memory; nothing is learned");
      return run.ending.status != 0 ? run.ending.status : 1;
    }
  if (run.ending.signal == 0 && run.ending.status == 0) return 0;
  const bool killed = run.ending.signal != 0;
  const int number = killed ? run.ending.signal : run.ending.status;
  say(options, name + ": the command ended with " + (killed ? "signal " : "exit code ") + std::to_string(number) +
                   "; nothing is learned");
  return killed ? 128 + number : number;
}

std::string alloc_conf() {
  for (const char* name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"})
    if (const char* const value = std::getenv(name)) return value;
  return "";
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string share(std::int64_t part, std::int64_t all) { return format_count(part) + " of " + format_count(all); }

// What the trace knows, and whether it gives back what PyTorch reported.
void say_what_is_known(const ShadowOptions& options, const LearnedTrace& trace) {
  const TraceCounts counts = counts_of(trace);
  std::string names = trace.variables[0].name;
  if (trace.variables.size() > 1) names += " and " + trace.variables[1].name;
  say(options, share(counts.constant, counts.allocations) + " allocations always have the same size, " +
                   format_count(counts.functions) + " are a function of " + names + ", verified by a held-out run");
  if (counts.workspaces > 0)
    say(options, share(counts.workspaces, counts.allocations) +
                     " are cuDNN workspaces for which gpuplan's rule matches the recording");
  if (counts.unchecked > 0)
    say(options, share(counts.unchecked, counts.allocations) +
                     " have an unverified function: one more value in --vary would verify it");
  if (counts.points > 0)
    say(options, share(counts.points, counts.allocations) + " fit no function: their recorded sizes are kept");
  if (counts.only_some_runs > 0)
    say(options,
        format_count(counts.only_some_runs) + " events happen at some values only, and are marked in the trace");
  const AllocatorSettings settings = parse_alloc_conf(trace.alloc_conf);
  for (std::size_t r = 0; r < trace.runs.size(); ++r) {
    const Readings planned = plan_trace(trace, trace.runs[r], settings).peak, recorded = trace.peaks[r];
    if (planned == recorded) continue;
    say(options, values_text(trace.variables, trace.runs[r]) + ": the trace gives " +
                     format_count(planned.requested_bytes) + " B requested, " + format_count(planned.allocated_bytes) +
                     " allocated, " + format_count(planned.reserved_bytes) + " reserved; PyTorch reported " +
                     format_count(recorded.requested_bytes) + ", " + format_count(recorded.allocated_bytes) + " and " +
                     format_count(recorded.reserved_bytes));
  }
}

LearnedTrace empty_trace(const ShadowOptions& options, const ShadowRun& run, std::vector<TraceVariable> variables) {
  LearnedTrace trace;
  trace.command = options.learn_as.empty() ? joined(options.command) : options.learn_as;
  trace.gpu = run.gpu.name;
  trace.gpu_title = run.gpu.title;
  trace.capability_major = run.gpu.capability_major;
  trace.capability_minor = run.gpu.capability_minor;
  trace.alloc_conf = alloc_conf();
  trace.world = run.settings.world;
  trace.rank = run.settings.rank;
  trace.context_bytes = run.settings.context_bytes;
  trace.runs = runs_to_learn(variables);
  trace.variables = std::move(variables);
  if (trace.runs.size() > kMaxTraceRuns)
    throw Error("--vary asks for " + std::to_string(trace.runs.size()) + " runs, and a trace has at most 64",
                ErrorKind::usage);
  return trace;
}

}  // namespace

std::vector<TraceVariable> learned_variables(const ShadowOptions& options) {
  refuse_other_flags(options);
  if (options.vary.empty())
    throw Error("--learn needs to know what varies", ErrorKind::usage).help("for example: --vary batch=4,8,12");
  if (options.vary.size() > kMaxTraceVariables)
    throw Error(
        "--vary is given " + std::to_string(options.vary.size()) + " times: at most two variables can be learned",
        ErrorKind::usage);
  std::vector<TraceVariable> variables;
  for (const std::string& text : options.vary) {
    variables.push_back(variable_of(text));
    const std::string mark = "{" + variables.back().name + "}";
    const auto has_mark = [&](const std::string& word) { return word.find(mark) != std::string::npos; };
    if (std::ranges::none_of(options.command, has_mark))
      throw Error("the command does not contain " + mark + ", which --vary replaces", ErrorKind::usage)
          .help("for example: --vary batch=4,8,12 -- python train.py --batch-size {batch}");
  }
  if (variables.size() == 2 && variables[0].name == variables[1].name)
    throw Error("--vary " + variables[0].name + " is given twice: list all of its values in one --vary",
                ErrorKind::usage);
  return variables;
}

int learn(const ShadowOptions& options, const ShadowRun& run,
          const std::function<CommandRun(const std::vector<std::string>&)>& run_command) {
  LearnedTrace trace = empty_trace(options, run, learned_variables(options));
  std::vector<RecordedRun> recorded;
  for (std::size_t r = 0; r < trace.runs.size(); ++r) {
    const std::string name = values_text(trace.variables, trace.runs[r]);
    say(options, "run " + std::to_string(r + 1) + " of " + std::to_string(trace.runs.size()) + ": " + name);
    std::vector<std::string> command;
    for (const std::string& word : options.command)
      command.push_back(with_values(word, trace.variables, trace.runs[r]));
    const auto began = std::chrono::steady_clock::now();
    const CommandRun got = run_command(command);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    if (const int code = failure(options, name, got)) return code;
    const shadow::ProcessRecord& process = recorded_process(name, got.session);
    recorded.push_back(read_recorded_run(name, process.allocations));
    name_workspaces(recorded.back(), process.workspaces);
    recorded.back().outside_bytes = outside_of(process, recorded.back());
    trace.torch = process.torch;
    trace.compiled = trace.compiled || process.compiled.graphs > 0;
    say(options, name + ": " + format_count(recorded.back().tensors) + " allocations, " +
                     format_bytes(recorded.back().peak.reserved_bytes) + " reserved, " +
                     format_tenths(static_cast<std::int64_t>(took.count() * 10)) + " s");
  }
  align_runs(recorded, trace);
  say_what_is_known(options, trace);
  const std::string text = write_learned_trace(trace);
  write_file(options.learn, text);
  say(options, "wrote " + options.learn + ", " + format_bytes(static_cast<std::int64_t>(text.size())) +
                   ": gpuplan plan " + options.learn + " --" + trace.variables[0].name + " ...");
  return 0;
}

}  // namespace gpuplan
