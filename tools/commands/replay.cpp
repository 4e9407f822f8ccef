// gpuplan replay TRACE: what a recorded history of allocations takes under other allocator settings.
#include "estimator/allocator/replay.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/format.h"
#include "estimator/report/memory_page.h"
#include "estimator/report/replay_report.h"
#include "estimator/snapshot/replayed_snapshot.h"
#include "estimator/snapshot/snapshot_report.h"
#include "estimator/snapshot/snapshot_trace.h"
#include "tools/answers/report_page.h"
#include "tools/answers/snapshot_input.h"
#include "tools/commands/commands.h"
#include "tools/files/read_input.h"
#include "tools/options/output_options.h"
#include "tools/options/run_options.h"
#include "tools/options/words.h"
#include "tools/process/streams.h"
#include "tools/process/version.h"

namespace gpuplan {
namespace {

struct ReplayOptions {
  std::string trace, alloc_conf, gpu, device;
  OutputOptions output;
  bool check = false, conf_given = false;
};

// What is replayed.
struct Recording {
  std::optional<Snapshot> snapshot;  // or a trace alone
  std::size_t device = 0;
  Trace trace;
  AllocatorSettings settings;
  ReplayedRun run;
};

// Its own figures, and what is to be known of a replay of it.
void tell_recorded(Recording& r, bool checks) {
  const SnapshotHistory history = follow(*r.snapshot, r.device);
  r.run.peak_allocated_bytes = history.peak.allocated_bytes;
  r.run.peak_requested_bytes = history.peak.requested_bytes;
  r.run.peak_reserved_bytes = history.peak.reserved_bytes;
  r.run.largest_free_bytes = report_of(*r.snapshot, r.device, lines_of(*r.snapshot)).largest_free_bytes;
  std::string doubt = doubt_about(history);
  if (!history.whole)
    doubt += "; what was there is made first, one block after the other, so that reserved bytes may be off";
  if (!doubt.empty()) r.run.warnings.push_back(std::move(doubt));
  if (has_private_pools(*r.snapshot, r.device))
    r.run.warnings.emplace_back("private pools, as CUDA graphs have them, are put into one");
  if (!history.whole && checks)
    throw Error(r.run.file + ": its history has no beginning, so that no address can be compared", ErrorKind::usage)
        .help("_record_memory_history() before the first allocation, with a max_entries that holds all events");
}

Recording open_recording(const ReplayOptions& options) {
  Recording r;
  r.run.file = options.trace;
  r.run.alloc_conf = options.alloc_conf;
  if (!is_snapshot(options.trace)) {
    if (!options.device.empty())
      throw Error("--device is for snapshots; " + options.trace + " is of one GPU", ErrorKind::usage);
    r.trace = open_trace(options.trace);
  } else {
    constexpr std::int64_t kMostDevices = 1 << 20;
    r.snapshot = open_snapshot(options.trace);
    r.device = static_cast<std::size_t>(
        options.device.empty() ? 0 : whole_number("--device", options.device, 0, kMostDevices));
    if (r.device >= r.snapshot->devices())
      throw Error("--device " + std::to_string(r.device) + ": " + options.trace + " has " +
                      std::to_string(r.snapshot->devices()) + (r.snapshot->devices() == 1 ? " GPU" : " GPUs"),
                  ErrorKind::usage);
    r.trace = trace_of(*r.snapshot, r.device);
    if (!options.conf_given) r.run.alloc_conf = r.snapshot->alloc_conf;
    tell_recorded(r, options.check);
  }
  r.settings = parse_alloc_conf(r.run.alloc_conf);
  if (r.trace.events.empty()) throw Error(r.trace.name + ": no events");
  return r;
}

// Of --gpu: what the allocator may take there, beside a context.
void limit_to(const std::string& name, Recording& r) {
  RunOptions options;
  options.gpu = name;
  const std::optional<Gpu> gpu = load_gpu(options);
  if (!gpu) return;
  const std::int64_t context = gpu->context_bytes.value_or(kAssumedContextBytes);
  r.run.gpu = name;
  r.run.limit_bytes = r.settings.memory_limit_bytes = std::max<std::int64_t>(usable_bytes(*gpu) - context, 0);
}

std::string difference_text(const Recording& r, const ReplayDifference& d) {
  const std::int32_t line = r.trace.events[d.event].line;
  const std::string at =
      r.snapshot ? ", event " + std::to_string(std::max(line, 1)) : ":" + std::to_string(std::max(line, 1));
  return r.trace.name + at + ": a different address\n  recorded  " + d.expected + "\n  replayed  " + d.actual + "\n";
}

// What was recorded, and the same as it is now.
std::vector<std::string> memories_of(const Recording& r) {
  if (!r.snapshot) return {};
  const Snapshot replayed = replayed_snapshot(*r.snapshot, r.device, r.settings, r.run.alloc_conf);
  return {memory_page_json("replayed", replayed, 0, PagePart::all),
          memory_page_json("recorded", *r.snapshot, r.device, PagePart::all)};
}

std::string page_of(const Recording& r, const OutputOptions& output) {
  const bool good = !r.run.replayed.out_of_memory;
  const ReplayReport& now = r.run.replayed;
  std::string verdict = mark_of(good, {}) + " " + format_bytes(now.peak_reserved_bytes) + " reserved at most";
  if (r.run.peak_reserved_bytes) verdict += ", " + format_bytes(*r.run.peak_reserved_bytes) + " as recorded";
  if (!good) verdict = mark_of(false, {}) + " out of memory on " + r.run.gpu;
  return report_page({.text = r.run.file + (r.run.alloc_conf.empty() ? "" : " with " + r.run.alloc_conf) + "\n\n" +
                              replay_text(r.run, file_style(output)),
                      .json = replay_json(r.run, kVersion),
                      .verdict = std::move(verdict),
                      .good = good,
                      .notes = r.run.warnings,
                      .drawings = {},
                      .memories = memories_of(r),
                      .memory_first = false},
                     output);
}

void refuse_format(Format format) {
  if (format == Format::csv || format == Format::md)
    throw Error("replay writes text, JSON or HTML", ErrorKind::usage).help("--format table, json or html");
}

std::string render(const Recording& r, Format format, const OutputOptions& output, const TextStyle& style) {
  if (format == Format::html) return page_of(r, output);
  return format == Format::json ? replay_json(r.run, kVersion) : replay_text(r.run, style);
}

// 0: replayed, and as recorded where --check asks for it; 1: not as recorded, or it does not fit --gpu.
int run_replay(const ReplayOptions& options) {
  const Format format = format_of(options.output);
  const std::vector<OutputFile> files = files_of(options.output);
  refuse_format(format);
  for (const OutputFile& file : files) refuse_format(file.format);
  Recording r = open_recording(options);
  if (!options.gpu.empty()) limit_to(options.gpu, r);
  for (const std::string& warning : r.run.warnings) write_stderr("warning: " + warning + "\n");
  r.run.replayed = replay(r.trace, r.settings, options.check);
  if (r.run.replayed.difference) {
    write_stdout(difference_text(r, *r.run.replayed.difference));
    return 1;
  }
  r.run.checked = options.check;
  for (const OutputFile& file : files)
    write_report(file, render(r, file.format, options.output, file_style(options.output)));
  write_stdout(render(r, format, options.output, terminal_style(options.output)));
  return r.run.replayed.out_of_memory ? 1 : 0;
}

}  // namespace

Trace open_trace(const std::string& name) {
  InputReader input(name);
  return read_trace(name == "-" ? "<stdin>" : name, [&](char* to, std::size_t most) { return input.read(to, most); });
}

void add_replay_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<ReplayOptions>();
  CLI::App* const command = app.add_subcommand("replay", "Replays a recorded allocator trace under other settings");
  command
      ->add_option("TRACE", options->trace,
                   "A snapshot of PyTorch's, or a trace of allocator events, .tsv or .tsv.gz; - for standard input")
      ->required();
  command
      ->add_option("--alloc-conf", options->alloc_conf,
                   "Settings, written as in PYTORCH_ALLOC_CONF; of a snapshot those that it was recorded with")
      ->type_name("TEXT");
  command->add_option("--gpu", options->gpu, "On this GPU, or with so much memory: exit code 1 if it does not fit")
      ->type_name("NAME|SIZE");
  command->add_option("--device", options->device, "Of a snapshot: which GPU of the process (0)")->type_name("N");
  command->add_flag("--check", options->check,
                    "Compares every address with the recorded one; exit code 1 if one differs");
  add_file_options(*command, options->output);
  options->output.has_page = true;
  command->get_option("--format")->type_name("table|json|html");
  command->callback([options, command, &exit_code] {
    options->output.command = given_command(*command);
    options->conf_given = command->count("--alloc-conf") > 0;
    exit_code = run_replay(*options);
  });
}

}  // namespace gpuplan
