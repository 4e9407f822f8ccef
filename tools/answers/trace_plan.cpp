#include "tools/answers/trace_plan.h"

#include <algorithm>

#include "estimator/distributed/nccl_memory.h"
#include "estimator/report/memory_page.h"
#include "estimator/report/trace_report.h"
#include "estimator/trace/learned_text.h"
#include "tools/answers/planning.h"
#include "tools/answers/report_page.h"
#include "tools/answers/viewer_files.h"
#include "tools/options/run_values.h"
#include "tools/options/words.h"
#include "tools/process/version.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kMostOfAVariable = 1'000'000'000'000;

// What was recorded holds one answer to each of these.
void refuse_recorded_flags(const RunOptions& o, const LearnedTrace& trace) {
  const std::pair<const char*, bool> flags[] = {{"--opt", !o.optimizer.empty()},
                                                {"--opt-impl", !o.optimizer_impl.empty()},
                                                {"--weight-decay", !o.weight_decay.empty()},
                                                {"--precision", !o.precision.empty()},
                                                {"--amp", !o.amp.empty()},
                                                {"--mode", !o.mode.empty()},
                                                {"--clip-grad-norm", !o.clip.empty()},
                                                {"--save", !o.save.empty()},
                                                {"--loop", !o.loop.empty()},
                                                {"--zero-grad", !o.zero_grad.empty()},
                                                {"--scratch", !o.scratch.empty()},
                                                {"--allocator", !o.allocator.empty()},
                                                {"--pytorch", !o.pytorch.empty()},
                                                {"--step", !o.step.empty()},
                                                {"--layout", !o.layout.empty()},
                                                {"--attention", !o.attention.empty()},
                                                {"--kernels", !o.kernels.empty()},
                                                {"--micro-batches", !o.micro_batches.empty()},
                                                {"--checkpoint", !o.checkpoint.empty()},
                                                {"--master", !o.master.empty()},
                                                {"--offload", !o.offload.empty()},
                                                {"--weights", !o.weights.empty()},
                                                {"--lora", !o.lora.empty()},
                                                {"--phase", !o.phase.empty()},
                                                {"--prompt", !o.prompt.empty()},
                                                {"--generate", !o.generate.empty()},
                                                {"--cache", !o.cache.empty()},
                                                {"--optimizer-in-backward", o.optimizer_in_backward},
                                                {"--labels", o.labels}};
  for (const auto& [name, given] : flags)
    if (given)
      throw Error(
          std::string(name) + ": a trace records one fixed run, with PyTorch " + trace.torch + " by: " + trace.command,
          ErrorKind::usage)
          .help("record again with another command: gpuplan shadow --learn FILE --vary ... -- COMMAND");
}

// The value of a variable as flags give it; nothing where none does.
std::optional<std::int64_t> given_value(const RunOptions& o, const std::string& name) {
  std::optional<std::int64_t> value;
  const auto give = [&](const std::string& flag, const std::string& text) {
    if (value) throw Error("the variable " + name + " is set twice", ErrorKind::usage);
    value = whole_number(flag, text, 1, kMostOfAVariable);
  };
  if (name == "batch" && !o.batch.empty()) give("--batch", o.batch);
  if (name == "seq" && !o.seq.empty()) give("--seq", o.seq);
  for (const std::string& text : o.set)
    if (text.starts_with(name + "=")) give("--set " + name, text.substr(name.size() + 1));
  return value;
}

void refuse_other_variables(const RunOptions& o, const LearnedTrace& trace) {
  std::vector<std::string> names;
  for (const TraceVariable& variable : trace.variables) names.push_back(variable.name);
  const auto refuse = [&](const std::string& flag, const std::string& name) {
    if (std::ranges::find(names, name) == names.end())
      throw Error(flag + ": the trace varies only " + either(names), ErrorKind::usage)
          .help("record again: gpuplan shadow --learn FILE --vary " + name + "=... -- COMMAND");
  };
  if (!o.batch.empty()) refuse("--batch", "batch");
  if (!o.seq.empty()) refuse("--seq", "seq");
  for (const std::string& text : o.set) {
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos)
      throw Error("--set expects NAME=VALUE, not \"" + text + "\"", ErrorKind::usage);
    refuse("--set " + text.substr(0, equals), text.substr(0, equals));
  }
}

// Those that no flag gives are as in the recording with the largest ones.
std::vector<std::int64_t> values_of(const RunOptions& o, const LearnedTrace& trace) {
  std::vector<std::int64_t> values;
  for (const TraceVariable& variable : trace.variables)
    values.push_back(given_value(o, variable.name).value_or(variable.values.back()));
  return values;
}

std::int64_t size_of_runtime(const std::string& text) {
  if (const std::optional<std::int64_t> bytes = size_in_bytes(text)) return *bytes;
  throw Error("--runtime expects a size with its unit, such as \"512 MiB\", not \"" + text + "\"", ErrorKind::usage);
}

// Of a batch that ranks share: as many samples as ranks, where every recorded run has a multiple of that.
std::int64_t step_between(const LearnedTrace& trace) {
  const bool shared = std::ranges::all_of(trace.runs, [&](const auto& run) { return run[0] % trace.world == 0; });
  return trace.variables[0].name == "batch" && shared ? trace.world : 1;
}

// The largest value of the first variable that fits; what a step needs grows with it, so halving the interval finds it.
std::int64_t largest_that_fits(const TraceReport& report, const AllocatorSettings& settings) {
  std::vector<std::int64_t> values = report.plan.values;
  const auto fits = [&](std::int64_t value) {
    values[0] = value;
    try {
      TraceReport tried = report;
      tried.plan = plan_trace(*report.trace, values, settings);
      return tried.fits();
    } catch (const Error&) {
      return false;
    }
  };
  std::int64_t good = report.fits() ? values[0] : 0, bad = report.fits() ? 0 : values[0];
  for (std::int64_t value = std::max<std::int64_t>(good, 1); bad == 0; value *= 2) {
    if (value > kMostOfAVariable) return good;  // it does not grow
    (fits(value) ? good : bad) = value;
  }
  while (bad - good > 1) {
    const std::int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good - good % step_between(*report.trace);
}

// What becomes of it where it does not fit.
void judge_on_gpu(TraceReport& report, const AllocatorSettings& settings) {
  report.usable_bytes = usable_bytes(*report.gpu);
  if (!report.fits())
    report.within =
        plan_trace(*report.trace, report.plan.values, settings,
                   std::max<std::int64_t>(report.usable_bytes - report.context_bytes - report.plan.outside_bytes, 0));
  if (report.gpu->name != report.trace->gpu)
    report.warnings.push_back("workspaces have the sizes that they have on " + report.trace->gpu_title +
                              ", on which the script was recorded");
}

std::string page_of(const TraceReport& report, const Snapshot& snapshot, const OutputOptions& output) {
  TextStyle brief;
  brief.brief = true;
  return report_page({.text = trace_report_text(report, file_style(output)),
                      .json = trace_report_json(report, kVersion),
                      .verdict = trace_report_text(report, brief),
                      .good = report.fits(),
                      .notes = report.warnings,
                      .drawings = {},
                      .memories = {memory_page_json(report.file, snapshot, 0, PagePart::peak_step)},
                      .memory_first = true},
                     output);
}

std::string render(const TraceReport& report, Format format, const TextStyle& style) {
  switch (format) {
    case Format::json: return trace_report_json(report, kVersion);
    case Format::csv: return trace_report_csv(report);
    case Format::md: return trace_report_md(report);
    case Format::html:  // a viewer's
    case Format::svg:
    case Format::table: break;
  }
  return trace_report_text(report, style);
}

AllocatorSettings settings_of(const RunOptions& run, const LearnedTrace& trace) {
  AllocatorSettings settings = parse_alloc_conf(run.alloc_conf.empty() ? trace.alloc_conf : run.alloc_conf);
  settings.segment_order = word_or("--segments", run.segments, SegmentOrder::rising);
  return settings;
}

// "2.15.0+cu132" as a plan has it, 215.
PyTorchVersion release_of(const LearnedTrace& trace) {
  const std::string_view text = trace.torch;
  const std::size_t dot = text.find('.'), end = text.find('.', dot + 1);
  if (dot == std::string_view::npos || end == std::string_view::npos) return kNewestPyTorch;
  const std::string digits = std::string(text.substr(0, dot)) + std::string(text.substr(dot + 1, end - dot - 1));
  const std::optional<std::int64_t> number = parse_number(digits);
  return number && *number < 1000 ? static_cast<PyTorchVersion>(*number) : kNewestPyTorch;
}

Gpu recorded_gpu(const LearnedTrace& trace) {
  const std::vector<Gpu> gpus = gpu_table();
  const auto found = std::ranges::find(gpus, trace.gpu, &Gpu::name);
  return found == gpus.end() ? gpu_of(trace) : *found;
}

// A simulated NCCL takes no memory; how many groups the program made is not recorded.
std::int64_t nccl_bytes_of(const LearnedTrace& trace, const std::optional<Gpu>& gpu) {
  Strategy ranks;
  ranks.data = DataParallel::ddp;
  ranks.gpus = trace.world;
  return trace.world > 1 ? nccl_buffers(ranks, gpu ? *gpu : recorded_gpu(trace), release_of(trace)).planned : 0;
}

TraceReport report_of(const RunOptions& run, const LearnedTrace& trace, const AllocatorSettings& settings,
                      const std::optional<Gpu>& gpu) {
  refuse_recorded_flags(run, trace);
  refuse_other_variables(run, trace);
  TraceReport report;
  report.trace = &trace;
  report.nccl_bytes = run.runtime.empty() ? nccl_bytes_of(trace, gpu) : 0;
  report.context_bytes = run.runtime.empty() ? trace.context_bytes + report.nccl_bytes : size_of_runtime(run.runtime);
  report.plan = plan_trace(trace, values_of(run, trace), settings);
  report.warnings = report.plan.notes;
  return report;
}

void refuse_layer_flags(const OutputOptions& o) {
  if (!o.depth.empty() || !o.rows.empty() || !o.sort.empty() || !o.columns.empty())
    throw Error("--depth, --rows, --sort and --columns need layers, and a trace has none", ErrorKind::usage);
}

}  // namespace

PlannedFigures trace_figures(const Source& source, const RunOptions& run, const Gpu* gpu) {
  const LearnedTrace trace = read_learned_trace(source);
  const AllocatorSettings settings = settings_of(run, trace);
  TraceReport report = report_of(run, trace, settings, gpu == nullptr ? std::nullopt : std::optional(*gpu));
  if (gpu != nullptr) {
    report.gpu = *gpu;
    judge_on_gpu(report, settings);
  }
  const TraceMoment& at = report.plan.at;
  SweepFigures figures;
  figures.allocated_bytes = report.plan.peak.allocated_bytes;
  figures.reserved_bytes = report.plan.peak.reserved_bytes;
  figures.device_bytes = report.device_bytes();
  figures.usable_bytes = figures.limit_bytes = report.usable_bytes;
  figures.fits = report.fits();
  figures.runs = report.fits() || !report.within->out_of_memory;
  figures.retries = report.within ? report.within->retries : 0;
  figures.phase = at.phase;
  figures.where = at.line.empty() ? at.name : at.name + " at " + at.line;
  return {std::move(figures), std::move(report.warnings)};
}

int plan_learned_trace(const RunOptions& run, const OutputOptions& given) {
  OutputOptions output = given;
  const std::vector<ViewerFile> viewers = take_viewers(output);
  const Format format = format_of(output);
  const std::vector<OutputFile> files = files_of(output);
  const TextStyle style = terminal_style(output);
  refuse_layer_flags(output);
  const std::shared_ptr<const Source> source = text_of({run.model, run.piped}, kTraceLimit);
  const LearnedTrace trace = read_learned_trace(*source);
  const AllocatorSettings settings = settings_of(run, trace);
  std::optional<Gpu> gpu = load_gpu(run);
  TraceReport report = report_of(run, trace, settings, gpu);
  report.file = source->name;
  report.gpu = std::move(gpu);
  report.margin = take_margin(run, report.gpu);
  if (report.gpu) {
    judge_on_gpu(report, settings);
    report.largest = largest_that_fits(report, settings);
  }
  if (!output.quiet || run.strict)
    for (const std::string& warning : report.warnings) write_stderr("warning: " + warning + "\n");
  const bool clean = !run.strict || report.warnings.empty();
  if (!clean) write_stderr("error: --strict: warnings are treated as errors\n");
  for (const OutputFile& file : files) write_report(file, render(report, file.format, file_style(output)));
  const auto page = [&](const Snapshot& snapshot) { return page_of(report, snapshot, output); };
  if (!write_viewers(
          viewers, [&] { return trace_snapshot(trace, report.plan.values, settings); }, page))
    write_stdout(render(report, format, style));
  return clean && report.fits() ? 0 : 1;
}

}  // namespace gpuplan
