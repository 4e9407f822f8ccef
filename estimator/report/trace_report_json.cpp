
#include "estimator/report/json_parts.h"
#include "estimator/report/trace_report.h"

namespace gpuplan {
namespace {

Json values_json(const LearnedTrace& trace, std::span<const std::int64_t> values) {
  Json json = Json::object();
  for (std::size_t v = 0; v < trace.variables.size(); ++v) json[trace.variables[v].name] = values[v];
  return json;
}

Json moment_json(const TraceMoment& at) {
  return {{"step", at.step}, {"phase", at.phase}, {"event", at.event}, {"op", at.name}, {"line", at.line}};
}

Json run_json(const TraceReport& report) {
  const LearnedTrace& trace = *report.trace;
  const Json values = values_json(trace, report.plan.values);
  Json json = {{"batch", values.contains("batch") ? values["batch"] : Json(nullptr)}};
  json["values"] = values;
  json["gpu"] = report.gpu ? Json(report.gpu->name) : Json(nullptr);
  json["pytorch"] = trace.torch;
  json["allocator"] = "caching";
  return json;
}

Json learned_json(const TraceReport& report) {
  const LearnedTrace& trace = *report.trace;
  const TraceCounts counts = counts_of(trace);
  Json runs = Json::array();
  for (std::size_t r = 0; r < trace.runs.size(); ++r)
    runs.push_back({{"values", values_json(trace, trace.runs[r])},
                    {"requested_bytes", trace.peaks[r].requested_bytes},
                    {"allocated_bytes", trace.peaks[r].allocated_bytes},
                    {"reserved_bytes", trace.peaks[r].reserved_bytes}});
  return {{"command", trace.command},
          {"gpu", trace.gpu},
          {"gpus", trace.world},
          {"rank", trace.rank},
          {"runs", std::move(runs)},
          {"recorded", report.plan.recorded},
          {"structure_of", values_json(trace, trace.runs[report.plan.nearest])},
          {"sizes",
           {{"constant", counts.constant},
            {"functions", counts.functions},
            {"workspaces", counts.workspaces},
            {"unchecked", counts.unchecked},
            {"points", counts.points}}},
          {"events_of_some_runs", counts.only_some_runs},
          {"estimated_allocations", report.plan.estimated_allocations}};
}

Json within_json(const TraceReport& report) {
  if (!report.within) return nullptr;
  Json failure = nullptr;
  if (report.within->out_of_memory) {
    failure = moment_json(report.within->out_of_memory->place);
    const OutOfMemory& reading = report.within->out_of_memory->reading;
    failure["wanted_bytes"] = reading.tried_bytes;
    failure["allocated_bytes"] = reading.allocated_bytes;
    failure["reserved_bytes"] = reading.reserved_bytes;
  }
  return {{"runs", !report.within->out_of_memory.has_value()},
          {"retries", report.within->retries},
          {"out_of_memory", std::move(failure)}};
}

Json phases_json(const TracePlan& plan) {
  Json list = Json::array();
  for (const TraceRow& row : plan.rows)
    list.push_back({{"step", row.step},
                    {"phase", row.phase},
                    {"requested_bytes", row.live.requested_bytes},
                    {"allocated_bytes", row.live.allocated_bytes},
                    {"reserved_bytes", row.live.reserved_bytes},
                    {"peak_requested_bytes", row.peak.requested_bytes},
                    {"peak_allocated_bytes", row.peak.allocated_bytes},
                    {"peak_reserved_bytes", row.peak.reserved_bytes}});
  return list;
}

}  // namespace

std::string trace_report_json(const TraceReport& report, std::string_view version) {
  const TracePlan& plan = report.plan;
  Json json = document_of("gpuplan.plan.learned/1", version);
  json["model"] = {{"name", report.file}, {"file", report.file}};
  json["learned"] = learned_json(report);
  json["run"] = run_json(report);
  json["peak"] = {{"allocated_bytes", plan.peak.allocated_bytes},
                  {"requested_bytes", plan.peak.requested_bytes},
                  {"reserved_bytes", plan.peak.reserved_bytes},
                  {"device_bytes", report.device_bytes()},
                  {"context_bytes", report.context_bytes},
                  {"context_confidence", "assumed"},
                  {"nccl_bytes", report.nccl_bytes},
                  {"outside_bytes", plan.outside_bytes}};
  json["peak"].update(moment_json(plan.at));
  json["fits"] = report.gpu ? Json(report.fits()) : Json(nullptr);
  json["within_memory"] = within_json(report);
  json["largest"] = nullptr;
  if (report.largest) json["largest"] = {{report.trace->variables[0].name, *report.largest}};
  json["phases"] = phases_json(plan);
  json["allocator"] = {{"segments", plan.segments},
                       {"allocations", plan.allocations},
                       {"inactive_split_bytes", plan.inactive_split_bytes}};
  json["warnings"] = report.warnings;
  return json_text(json);
}

}  // namespace gpuplan
