// gpuplan replay TRACE: what a recorded history of allocations takes under other allocator settings.
#include "estimator/allocator/replay.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/format.h"
#include "estimator/snapshot/snapshot_trace.h"
#include "tools/answers/snapshot_input.h"
#include "tools/commands/commands.h"
#include "tools/files/read_input.h"
#include "tools/options/run_options.h"
#include "tools/options/words.h"
#include "tools/process/streams.h"

namespace gpuplan {
namespace {

struct ReplayOptions {
  std::string trace, alloc_conf, gpu, device;
  bool check = false, conf_given = false;
};

void print_bytes(const char* name, std::int64_t bytes) {
  std::string label = name;
  label.resize(26, ' ');
  std::string exact = format_count(bytes);
  exact.insert(0, exact.size() < 18 ? 18 - exact.size() : 0, ' ');
  std::cout << label << exact << " B  " << format_bytes(bytes) << '\n';
}

void print_report(const ReplayReport& r) {
  print_bytes("peak allocated", r.peak_allocated_bytes);
  print_bytes("peak requested", r.peak_requested_bytes);
  print_bytes("peak reserved", r.peak_reserved_bytes);
  print_bytes("fragmentation at the peak", r.fragmentation_bytes);
  print_bytes("peak inactive split", r.peak_inactive_split_bytes);
  print_bytes("inactive split at the end", r.inactive_split_bytes);
  print_bytes("largest free at the end", r.largest_free_bytes);
  std::cout << format_count(r.allocations) << " allocations, " << format_count(r.segments) << " segments at the end\n";
}

// What a recording is replayed with, and what is said first of it.
struct Replayed {
  Trace trace;
  AllocatorSettings settings;
  std::string note;
};

Replayed open_replay(const ReplayOptions& options) {
  if (!is_snapshot(options.trace)) {
    if (!options.device.empty())
      throw Error("--device is for snapshots; " + options.trace + " is of one GPU", ErrorKind::usage);
    return {open_trace(options.trace), parse_alloc_conf(options.alloc_conf), ""};
  }
  constexpr std::int64_t kMostDevices = 1 << 20;
  const Snapshot snapshot = open_snapshot(options.trace);
  const auto device =
      static_cast<std::size_t>(options.device.empty() ? 0 : whole_number("--device", options.device, 0, kMostDevices));
  if (device >= snapshot.devices())
    throw Error("--device " + std::to_string(device) + ": " + options.trace + " has " +
                    std::to_string(snapshot.devices()) + (snapshot.devices() == 1 ? " GPU" : " GPUs"),
                ErrorKind::usage);
  Replayed replayed{trace_of(snapshot, device),
                    parse_alloc_conf(options.conf_given ? options.alloc_conf : snapshot.alloc_conf), ""};
  const SnapshotHistory history = follow(snapshot, device);
  replayed.note = doubt_about(history);
  if (!history.whole)
    replayed.note += "; what was there is made first, one block after the other, so that reserved bytes may be off";
  if (has_private_pools(snapshot, device))
    replayed.note +=
        std::string(replayed.note.empty() ? "" : "; ") + "private pools, as CUDA graphs have them, are put into one";
  if (!history.whole && options.check)
    throw Error(options.trace + ": its history has no beginning, so that no address can be compared", ErrorKind::usage)
        .help("_record_memory_history() before the first allocation, with a max_entries that holds all events");
  return replayed;
}

// Of --gpu: what the allocator may take there, beside a context.
void limit_to(const std::string& name, AllocatorSettings& settings) {
  RunOptions options;
  options.gpu = name;
  const std::optional<Gpu> gpu = load_gpu(options);
  if (!gpu) return;
  const std::int64_t context = gpu->context_bytes.value_or(kAssumedContextBytes);
  settings.memory_limit_bytes = std::max<std::int64_t>(usable_bytes(*gpu) - context, 0);
}

// 0: replayed, and as recorded where --check asks for it; 1: not as recorded, or it does not fit --gpu.
int run_replay(const ReplayOptions& options) {
  Replayed replayed = open_replay(options);
  const Trace& trace = replayed.trace;
  if (!options.gpu.empty()) limit_to(options.gpu, replayed.settings);
  if (trace.events.empty()) throw Error(trace.name + ": no events");
  if (!replayed.note.empty()) write_stderr("warning: " + replayed.note + "\n");
  const ReplayReport report = replay(trace, replayed.settings, options.check);
  if (report.difference) {
    const ReplayDifference& d = *report.difference;
    const std::int32_t line = trace.events[d.event].line;
    std::cout << trace.name << (line > 0 ? ":" + std::to_string(line) : ", event " + std::to_string(d.event + 1))
              << ": a different address\n  recorded  " << d.expected << "\n  replayed  " << d.actual << '\n';
    return 1;
  }
  print_report(report);
  if (options.check) std::cout << "all addresses match the recording\n";
  if (!report.out_of_memory) return 0;
  std::cout << "out of memory on " << options.gpu
            << ", beside the CUDA context: " << format_bytes(report.out_of_memory->requested_bytes)
            << " requested with " << format_bytes(report.out_of_memory->allocated_bytes) << " allocated and "
            << format_bytes(report.out_of_memory->reserved_bytes) << " reserved\n";
  return 1;
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
  command->callback([options, command, &exit_code] {
    options->conf_given = command->count("--alloc-conf") > 0;
    exit_code = run_replay(*options);
  });
}

}  // namespace gpuplan
