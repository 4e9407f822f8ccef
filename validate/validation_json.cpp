#include "estimator/report/json_parts.h"
#include "validate/validation.h"

namespace gpuplan {
namespace {

Json place_json(const WithinMemory& m) {
  return {{"wanted_bytes", m.tried_bytes},
          {"allocated_bytes", m.allocated_bytes},
          {"reserved_bytes", m.reserved_bytes},
          {"step", m.step},
          {"phase", name_of(m.phase)},
          {"op", m.op},
          {"layer", m.layer}};
}

Json ran_out_json(const Validation& v) {
  if (!v.ran_out) return nullptr;
  const RanOut& out = *v.ran_out;
  Json instead = Json::array();
  for (const Suggestion& way : v.suggestions)
    instead.push_back({{"flags", way.flags}, {"device_bytes", way.device_bytes}, {"retries", way.retries}});
  return {{"free_bytes", out.free_bytes},
          {"needed_bytes", v.plan.peak.reading.reserved_bytes},
          {"measured", place_json(out.measured)},
          {"predicted", out.predicted.runs ? Json(nullptr) : place_json(out.predicted)},
          {"same", out.same},
          {"runs_instead", instead}};
}

Json rows_json(const Validation& v) {
  Json rows = Json::array();
  for (const ValidationRow& r : v.rows)
    rows.push_back({{"name", r.name},
                    {"predicted_bytes", r.predicted_bytes},
                    {"measured_bytes", r.measured_bytes},
                    {"error_bytes", r.error_bytes()},
                    {"error", r.error()},
                    {"counts", r.counts}});
  return rows;
}

Json levels_json(const PhaseRow& r) {
  return {{"allocated_bytes", r.live.allocated_bytes},
          {"reserved_bytes", r.live.reserved_bytes},
          {"peak_allocated_bytes", r.peak.allocated_bytes},
          {"peak_reserved_bytes", r.peak.reserved_bytes}};
}

Json phases_json(const Validation& v) {
  Json phases = Json::array();
  for (const PhaseMemory& p : v.phases)
    phases.push_back({{"phase", name_of(p.phase)},
                      {"predicted", levels_json(p.predicted)},
                      {"measured", levels_json(p.measured)},
                      {"predicted_device_bytes", p.predicted.live.reserved_bytes + v.plan.peak.context_bytes},
                      {"device_bytes", p.device_bytes},
                      {"process_bytes", or_null(p.process_bytes)}});
  return phases;
}

Json spread_json(const std::vector<double>& readings) {
  const Spread s = spread_of(readings);
  return {{"median_ms", s.median}, {"least_ms", s.least}, {"most_ms", s.most}, {"all_ms", readings}};
}

Json peak_json(double rate) { return rate > 0 ? Json(rate) : Json(nullptr); }

Json time_rows_json(const std::vector<TimeRow>& rows) {
  Json list = Json::array();
  for (const TimeRow& r : rows)
    list.push_back({{"name", r.name},
                    {"operations", r.operations},
                    {"forward_ms", r.forward_ms},
                    {"backward_ms", r.backward_ms},
                    {"update_ms", r.update_ms},
                    {"median_ms", r.total_ms.median},
                    {"least_ms", r.total_ms.least},
                    {"most_ms", r.total_ms.most},
                    {"flops", r.flops},
                    {"bytes", r.bytes},
                    {"flops_per_second", r.flops_per_second()},
                    {"bytes_per_second", r.bytes_per_second()},
                    {"roofline_ms", r.least_ms},
                    {"roofline", r.least_ms > 0 ? Json(r.roofline()) : Json(nullptr)}});
  return list;
}

Json times_json(const Validation& v) {
  if (!v.times) return nullptr;
  const StepTimes& t = *v.times;
  const double median = spread_of(t.steps_ms).median;
  return {
      {"predicted_ms", nullptr},  // no plan has times yet
      {"step", spread_json(t.steps_ms)},
      {"marked_step", spread_json(t.marked_ms)},
      {"warm_up_steps", t.warm_up_steps},
      {"samples_per_second", median > 0 ? Json(static_cast<double>(v.plan.run.batch) / median * 1000) : Json(nullptr)},
      {"roofline_ms", t.least_ms},
      {"roofline", t.least_ms > 0 && median > 0 ? Json(t.least_ms / median) : Json(nullptr)},
      {"peaks",
       {{"bytes_per_second", peak_json(t.peaks.bytes)},
        {"fp64_flops_per_second", peak_json(t.peaks.fp64)},
        {"fp32_flops_per_second", peak_json(t.peaks.fp32)},
        {"tf32_flops_per_second", peak_json(t.peaks.tf32)},
        {"half_flops_per_second", peak_json(t.peaks.half)}}},
      {"layers", time_rows_json(t.layers)},
      {"classes", time_rows_json(t.classes)},
      {"operations", time_rows_json(t.operations)}};
}

}  // namespace

std::string validation_json(const Validation& v, double tolerance, std::string_view version) {
  Json json = document_of("gpuplan.validate/1", version);
  json["model"] = v.plan.model.name;
  json["batch"] = v.plan.run.batch;
  json["device"] = {{"name", v.device.name}, {"versions", v.device.versions}, {"computes", v.computes}};
  json["tolerance"] = tolerance;
  json["holds"] = v.holds(tolerance);
  json["rows"] = rows_json(v);
  json["phases"] = phases_json(v);
  json["before"] = {{"device_bytes", v.before.device_bytes},
                    {"process_bytes", or_null(v.before.process_bytes)},
                    {"context_bytes", v.before.context_bytes},
                    {"library_bytes", v.before.library_bytes},
                    {"context_predicted_bytes", v.plan.peak.context_bytes},
                    {"context_confidence", name_of(v.plan.peak.context_confidence)}};
  json["unaccounted_bytes"] = v.unaccounted_bytes;
  json["peak"] = {{"predicted", v.peak_predicted}, {"measured", v.peak_measured}};
  json["losses"] = v.computes ? Json(v.losses) : Json(nullptr);
  json["values_equal"] = or_null(v.values_equal);
  json["values_not_compared"] = text_or_null(v.values_not_compared);
  json["remarks"] = v.remarks;
  json["times"] = times_json(v);
  json["out_of_memory"] = ran_out_json(v);
  return json_text(json);
}

}  // namespace gpuplan
