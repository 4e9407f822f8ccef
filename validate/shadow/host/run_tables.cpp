// A run as CSV and as Markdown.
#include "estimator/base/format.h"
#include "estimator/report/text_table.h"
#include "validate/shadow/host/run_report.h"
#include "validate/shadow/host/run_words.h"

namespace gpuplan::shadow {
namespace {

std::string csv_row(const RankReport& rank, const std::string& step, const Figures& peak, std::int64_t kernels,
                    const std::string& device_bytes) {
  return (rank.rank < 0 ? "" : std::to_string(rank.rank)) + "," + std::to_string(rank.device) + "," + step + "," +
         std::to_string(peak.allocated) + "," + std::to_string(peak.requested) + "," + std::to_string(peak.reserved) +
         "," + device_bytes + "," + std::to_string(kernels) + "\n";
}

std::string categories_table(const RankReport& rank) {
  TextTable table({kLeft, kRight});
  table.row({"alive at the peak", "bytes"});
  for (const auto& [name, bytes] : rank.alive.categories)
    if (bytes > 0) table.row({category_words(name), format_bytes(bytes)});
  return rank.alive.categories.empty() ? "" : "\n" + table.markdown();
}

std::string ranks_table(const RunReport& report) {
  TextTable table({kRight, kRight, kRight, kRight, kRight, kRight});
  table.row({"rank", "device", "allocated", "requested", "reserved", "device total"});
  for (const RankReport& rank : report.ranks)
    table.row({rank_words(rank), format_count(rank.device), format_bytes(rank.peak.allocated),
               format_bytes(rank.peak.requested), format_bytes(rank.peak.reserved), format_bytes(rank.device_bytes)});
  return report.ranks.empty() ? "" : "\n" + table.markdown();
}

std::string fits_words(const RunReport& report) {
  std::string good, bad;
  for (const std::string& name : fit_names(report, true)) good += (good.empty() ? "" : ", ") + name;
  for (const std::string& name : fit_names(report, false)) bad += (bad.empty() ? "" : ", ") + name;
  return (good.empty() ? "" : "\nFits " + good + ".\n") + (bad.empty() ? "" : "\nDoes not fit " + bad + ".\n");
}

std::string trouble(const RunReport& report) {
  std::string out;
  if (report.out_of_memory) out += "**" + out_of_memory_words(report, {}) + "**\n\n";
  if (report.over_max_peak) out += "**over --max-peak " + format_bytes(*report.max_peak_bytes) + "**\n\n";
  if (const std::string words = ending_words(report); !words.empty()) out += words + "\n\n";
  for (const Problem& problem : report.problems) out += problem.text + "\n\n";
  return out;
}

}  // namespace

std::string run_csv(const RunReport& report) {
  std::string out = "rank,device,step,allocated_bytes,requested_bytes,reserved_bytes,device_bytes,kernels\n";
  for (const RankReport& rank : report.ranks) {
    for (const StepRecord& step : rank.steps)
      out += csv_row(rank, std::to_string(step.index), step.peak, step.kernels, "");
    out += csv_row(rank, "all", rank.peak, rank.kernels, std::to_string(rank.device_bytes));
  }
  return out;
}

std::string run_md(const RunReport& report) {
  std::string out = "### `" + command_words(report.command, 100) + "` on " + report.gpu_title;
  if (report.ranks.empty()) return out + "\n\n" + trouble(report) + nothing_used_words(report) + "\n";
  const RankReport& rank = report.ranks[report.fullest];
  out += ": peak " + format_bytes(limited_bytes(rank)) + "\n\n" + trouble(report);
  out += "Needs **" + format_bytes(rank.device_bytes) + "** of " + format_bytes(report.capacity_bytes) + ".\n";
  out += ranks_table(report) + categories_table(rank) + fits_words(report);
  const std::vector<std::string> unknown = unknown_words(report);
  for (const std::string& what : unknown) out += "\n* unknown: " + what;
  return out + (unknown.empty() ? "" : "\n");
}

}  // namespace gpuplan::shadow
