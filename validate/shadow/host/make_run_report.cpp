#include <algorithm>
#include <utility>

#include "validate/shadow/host/describe_gpu.h"
#include "validate/shadow/host/run_report.h"

namespace gpuplan::shadow {
namespace {

// CUDA_VISIBLE_DEVICES lets a process number its devices differently from the session: where it used one, there is no
// question which one that was.
int session_device(const ProcessRecord& process, int device) {
  return process.used.size() == 1 && process.devices.size() <= 1 ? process.used.begin()->first : device;
}

RankReport rank_report(const SessionRecord& session, const ProcessRecord& process, int device, std::int64_t context) {
  const int there = session_device(process, device);
  RankReport rank;
  rank.rank = process.rank;
  rank.process = process.pid;
  rank.device = device;
  rank.kernels = process.kernels;
  if (const auto torch = process.devices.find(device); torch != process.devices.end()) {
    rank.torch = true;
    rank.peak = torch->second.peak;
    rank.segments = torch->second.segments;
    rank.retries = torch->second.retries;
    rank.graph_bytes = std::min(torch->second.graph_bytes, rank.peak.reserved - rank.peak.allocated);
    rank.steps = torch->second.steps;
    rank.alive = torch->second.alive;
  }
  if (const auto used = process.used.find(there); used != process.used.end()) {
    rank.held_bytes = used->second.peak_bytes;
    rank.allocations = used->second.allocations;
  }
  // A killed process's memory is known, what PyTorch made of it is not.
  rank.torch |= !process.torch.empty() && rank.held_bytes == 0;
  const auto fullest = session.fullest.find(there);
  const DeviceMoment alone = {.bytes = std::max(rank.held_bytes, rank.peak.reserved) + context, .contexts = 1};
  const bool seen = fullest != session.fullest.end() && fullest->second.bytes >= alone.bytes;
  const DeviceMoment moment = seen ? fullest->second : alone;
  rank.device_bytes = moment.bytes;
  rank.context_bytes = context * moment.contexts;
  return rank;
}

std::vector<RankReport> rank_reports(const SessionRecord& session, std::int64_t context) {
  std::vector<RankReport> ranks;
  for (const ProcessRecord& process : session.processes) {
    for (const auto& [device, figures] : process.devices)
      if (figures.peak.reserved > 0 || process.used.contains(session_device(process, device)))
        ranks.push_back(rank_report(session, process, device, context));
    if (!process.devices.empty()) continue;
    for (const auto& [device, use] : process.used) ranks.push_back(rank_report(session, process, device, context));
  }
  return ranks;
}

// PyTorch's own words where it ran out of memory. A program without PyTorch may ask for memory in order to be refused:
// only its failure says that it could not do without.
std::optional<OutOfMemory> out_of_memory_of(const ProcessRecord& process, const Ending& ending) {
  if (!process.out_of_memory.empty()) return process.out_of_memory.back();
  if (!process.devices.empty() || process.refusals == 0 || (ending.status == 0 && ending.signal == 0))
    return std::nullopt;
  OutOfMemory out;
  out.wanted_bytes = process.refused_bytes;
  out.free_bytes = process.refused_free_bytes;
  for (const auto& [device, use] : process.used) out.allocated_bytes += use.peak_bytes;
  return out;
}

// The hook writes before a process's first allocation, so that it was not there where nothing is written.
bool without_hook(const ProcessRecord& process) {
  return process.pytorch && process.torch.empty() && !process.used.empty();
}

Problem no_hook_problem(const Settings& settings) {
  std::string lost;
  const auto add = [&](bool given, const char* flag) {
    if (given) lost += (lost.empty() ? "" : ", ") + std::string(flag);
  };
  add(settings.steps > 0, "--steps");
  add(settings.until_stable, "--until-stable");
  add(settings.no_compile, "--no-compile");
  add(!settings.snapshot.empty(), settings.snapshot == kHistoryOfPage ? "the memory of -o FILE.html" : "--snapshot");
  return {.code = 0,
          .text =
              "PyTorch's own figures are missing: Python did not load gpuplan's hook from PYTHONPATH (it was started "
              "with -I, -E or -S)" +
              (lost.empty() ? "" : "; ignored: " + lost)};
}

std::vector<FitRow> fits_of(const std::vector<Gpu>& catalog, std::int64_t device_bytes) {
  std::vector<FitRow> rows;
  for (const Gpu& gpu : catalog)
    rows.push_back({.gpu = gpu.name,
                    .title = gpu.title,
                    .usable_bytes = capacity_of(gpu),
                    .fits = device_bytes <= capacity_of(gpu)});
  std::ranges::stable_sort(rows, {}, &FitRow::usable_bytes);
  return rows;
}

}  // namespace

bool ended_early(const RunReport& report) {
  return report.out_of_memory || report.ending.status != 0 || report.ending.signal != 0;
}

std::int64_t limited_bytes(const RankReport& rank) { return rank.torch ? rank.peak.allocated : rank.held_bytes; }

int exit_code_of(const RunReport& report) {
  for (const Problem& problem : report.problems)
    if (problem.code != 0) return problem.code;
  if (report.ending.signal != 0) return 128 + report.ending.signal;
  if (report.ending.status != 0) return report.ending.status;
  return report.out_of_memory || report.over_max_peak ? 1 : 0;
}

RunReport make_run_report(const SessionRecord& session, const RunFacts& facts) {
  RunReport report;
  report.gpu = facts.gpu.name;
  report.gpu_title = facts.gpu.title;
  report.capacity_bytes = facts.settings.gpu.total_global_mem;
  report.settings = facts.settings;
  report.command = facts.command;
  report.ending = facts.ending;
  report.engine = session.engine;
  report.unknown = session.unknown;
  report.problems = session.problems;
  report.max_peak_bytes = facts.max_peak_bytes;
  for (const ProcessRecord& process : session.processes) {
    if (report.torch.empty()) report.torch = process.torch, report.cuda = process.cuda, report.python = process.python;
    if (!process.end_reason.empty() && (report.end_reason.empty() || !process.devices.empty()))
      report.end_reason = process.end_reason;
    if (const auto oom = out_of_memory_of(process, facts.ending); oom && !report.out_of_memory) {
      report.out_of_memory = oom;
      report.out_of_memory_rank = process.rank;
    }
  }
  if (std::ranges::any_of(session.processes, without_hook)) report.problems.push_back(no_hook_problem(facts.settings));
  report.ranks = rank_reports(session, facts.settings.context_bytes);
  const auto fullness = [](const RankReport& rank) { return std::pair(rank.device_bytes, rank.held_bytes); };
  const auto fullest = std::ranges::max_element(report.ranks, {}, fullness);
  report.fullest = fullest == report.ranks.end() ? 0 : static_cast<std::size_t>(fullest - report.ranks.begin());
  for (const auto& [choice, workspace] : session.choices) {
    (choice.first == "operator" ? report.autotuned.operators : report.autotuned.configurations) += 1;
    report.autotuned.workspace_bytes = std::max(report.autotuned.workspace_bytes, workspace);
  }
  for (const ProcessRecord& process : session.processes)
    if (!report.ranks.empty() && process.pid == report.ranks[report.fullest].process) {
      report.compiled = process.compiled;
      report.decided = process.decided;
    }
  for (const RankReport& rank : report.ranks)
    report.over_max_peak |= facts.max_peak_bytes && limited_bytes(rank) > *facts.max_peak_bytes;
  if (!report.ranks.empty() && !ended_early(report))
    report.fits = fits_of(facts.catalog, report.ranks[report.fullest].device_bytes);
  report.exit_code = exit_code_of(report);
  return report;
}

}  // namespace gpuplan::shadow
