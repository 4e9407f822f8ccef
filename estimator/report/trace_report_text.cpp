#include <functional>

#include "estimator/base/excerpt.h"
#include "estimator/base/list_text.h"
#include "estimator/report/escape.h"
#include "estimator/report/text_table.h"
#include "estimator/report/trace_report.h"

namespace gpuplan {
namespace {

class TraceScreen : public StyledScreen {
 public:
  TraceScreen(const TraceReport& report, const TextStyle& style) : StyledScreen(style), report_(report) {}

  std::string headline() const;
  std::string verdict() const;
  std::string phases() const;
  std::string facts() const;

 private:
  std::string fit_words() const;
  std::string largest_words() const;

  const TraceReport& report_;
};

std::string moment_text(const TraceMoment& at) {
  std::string text = (at.step > 0 ? "step " + std::to_string(at.step) + ", " : "") + at.phase;
  if (!at.name.empty() && at.name != at.phase) text += ", in " + at.name;
  return text + (at.line.empty() ? "" : " at " + at.line);
}

std::string TraceScreen::headline() const {
  const LearnedTrace& trace = *report_.trace;
  std::string out = paint("1", printable_text(report_.file)) + dot() + "learned" + dot() +
                    values_text(trace.variables, report_.plan.values);
  if (trace.world > 1) out += dot() + "rank " + std::to_string(trace.rank) + " of " + std::to_string(trace.world);
  out += dot() + (report_.gpu ? report_.gpu->title : "no GPU named") + dot() + "PyTorch " + trace.torch;
  return out + "\n  " + trace.command + "\n";
}

std::string TraceScreen::fit_words() const {
  if (!report_.gpu) return "total device memory";
  const std::int64_t needs = report_.device_bytes(), usable = report_.usable_bytes;
  return StyledScreen::fit_words(report_.fits(), device_words(*report_.gpu, report_.margin), "", usable - needs);
}

std::string TraceScreen::largest_words() const {
  const std::string& name = report_.trace->variables[0].name;
  if (!report_.largest) return "";
  return *report_.largest > 0 ? name + " " + format_count(*report_.largest) : "none: " + name + " 1 does not fit";
}

std::string TraceScreen::verdict() const {
  const TracePlan& plan = report_.plan;
  TextTable table({kLeft, kRight, kLeft});
  table.row({"Peak", bytes(plan.peak.allocated_bytes), "in " + moment_text(plan.at)});
  table.row({"+ cache", bytes(plan.peak.reserved_bytes - plan.peak.allocated_bytes),
             "held by PyTorch's allocator, " + bytes(plan.peak.reserved_bytes) + " reserved"});
  if (plan.outside_bytes > 0) table.row({"+ others", bytes(plan.outside_bytes), "outside PyTorch's allocator"});
  const std::string nccl =
      report_.nccl_bytes > 0 ? ", " + bytes(report_.nccl_bytes) + " of NCCL for one group of all ranks" : "";
  table.row({"+ runtime", bytes(report_.context_bytes), "CUDA context and libraries" + nccl + ", assumed (--runtime)"});
  table.row({"Needs", bytes(report_.device_bytes()), fit_words()});
  if (report_.within && !report_.within->out_of_memory)
    table.row({"Runs", "", "only because the allocator releases its cache: " + retries_text(report_.within->retries)});
  else if (report_.within)
    table.row({"Fails", bytes(report_.within->out_of_memory->reading.tried_bytes),
               "requested in " + moment_text(report_.within->out_of_memory->place) + ", " +
                   bytes(report_.within->out_of_memory->reading.allocated_bytes) + " allocated"});
  if (report_.largest) table.row({"Largest", "", largest_words()});
  return "\n" + table.text();
}

TextTable phase_table(const TracePlan& plan, const std::function<std::string(const std::string&)>& name,
                      const std::function<std::string(std::int64_t)>& bytes) {
  TextTable table({kLeft, kLeft, kRight, kRight, kRight, kRight, kRight, kRight});
  table.row({"step", "phase", "live requested", "allocated", "reserved", "peak requested", "allocated", "reserved"});
  for (const TraceRow& row : plan.rows)
    table.row({row.step > 0 ? std::to_string(row.step) : "", name(row.phase), bytes(row.live.requested_bytes),
               bytes(row.live.allocated_bytes), bytes(row.live.reserved_bytes), bytes(row.peak.requested_bytes),
               bytes(row.peak.allocated_bytes), bytes(row.peak.reserved_bytes)});
  return table;
}

std::string TraceScreen::phases() const {
  return "\n" + phase_table(report_.plan, printable_text, [this](std::int64_t n) { return bytes(n); }).text();
}

std::string TraceScreen::facts() const {
  const LearnedTrace& trace = *report_.trace;
  const TraceCounts counts = counts_of(trace);
  const std::string runs = joined(trace.runs, ", ", [&](const auto& run) { return values_text(trace.variables, run); });
  TextTable table({kLeft, kLeft});
  table.row({"Learned", "on " + trace.gpu_title + " at " + runs});
  table.row({"Sizes", format_count(counts.constant) + " constant" + dot() + format_count(counts.functions) +
                          " functions, verified" + dot() + format_count(counts.workspaces) +
                          " cuDNN workspaces, by rule" + dot() + format_count(counts.unchecked) +
                          " functions, unverified" + dot() + format_count(counts.points) + " interpolated"});
  const TracePlan& plan = report_.plan;
  table.row({"Allocator", format_count(plan.segments) + " segments" + dot() + format_count(plan.allocations) +
                              " allocations" + dot() + bytes(plan.inactive_split_bytes) + " in split remainders"});
  return "\n" + table.text();
}

}  // namespace

std::string trace_report_text(const TraceReport& report, const TextStyle& style) {
  const TraceScreen screen(report, style);
  if (style.brief) return screen.verdict().substr(1);
  return screen.headline() + screen.verdict() + screen.phases() + screen.facts();
}

std::string trace_report_csv(const TraceReport& report) {
  std::string text =
      "step,phase,requested_bytes,allocated_bytes,reserved_bytes,peak_requested_bytes,peak_allocated_bytes,"
      "peak_reserved_bytes\n";
  for (const TraceRow& row : report.plan.rows) {
    std::string phase = "\"";
    for (const char c : row.phase) phase += c == '"' ? "\"\"" : std::string(1, c);
    text += std::to_string(row.step) + "," + phase + "\"";
    for (const Readings& r : {row.live, row.peak})
      text += "," + std::to_string(r.requested_bytes) + "," + std::to_string(r.allocated_bytes) + "," +
              std::to_string(r.reserved_bytes);
    text += "\n";
  }
  return text;
}

std::string trace_report_md(const TraceReport& report) {
  TextStyle plain;
  plain.brief = true;
  return "```\n" + trace_report_text(report, plain) + "```\n\n" +
         phase_table(report.plan, markdown_text, [](std::int64_t n) { return format_bytes(n); }).markdown();
}

}  // namespace gpuplan
