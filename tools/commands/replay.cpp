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
#include "tools/commands/commands.h"
#include "tools/files/read_input.h"

namespace gpuplan {
namespace {

struct ReplayOptions {
  std::string trace;
  std::string alloc_conf;
  bool check = false;
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

// 0: replayed, and as recorded where --check asks for it; 1: not as recorded.
int run_replay(const ReplayOptions& options) {
  const AllocatorSettings settings = parse_alloc_conf(options.alloc_conf);
  const Trace trace = open_trace(options.trace);
  if (trace.events.empty()) throw Error(trace.name + ": no events");
  const ReplayReport report = replay(trace, settings, options.check);
  if (report.difference) {
    const ReplayDifference& d = *report.difference;
    std::cout << trace.name << ":" << trace.events[d.event].line << ": a different address\n  recorded  " << d.expected
              << "\n  replayed  " << d.actual << '\n';
    return 1;
  }
  print_report(report);
  if (options.check) std::cout << "all addresses match the recording\n";
  return 0;
}

}  // namespace

Trace open_trace(const std::string& name) {
  InputReader input(name);
  return read_trace(name == "-" ? "<stdin>" : name, [&](char* to, std::size_t most) { return input.read(to, most); });
}

void add_replay_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<ReplayOptions>();
  CLI::App* const command = app.add_subcommand("replay", "Replays a recorded allocator trace under other settings");
  command->add_option("TRACE", options->trace, "Trace of allocator events, .tsv or .tsv.gz; - for standard input")
      ->required();
  command->add_option("--alloc-conf", options->alloc_conf, "Settings, written as in PYTORCH_ALLOC_CONF");
  command->add_flag("--check", options->check,
                    "Compares every address with the recorded one; exit code 1 if one differs");
  command->callback([options, &exit_code] { exit_code = run_replay(*options); });
}

}  // namespace gpuplan
