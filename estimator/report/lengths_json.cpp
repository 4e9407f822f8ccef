#include <algorithm>
#include <cmath>

#include "estimator/plan/run_names.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/lengths_report.h"

namespace gpuplan {
namespace {

double share(double value) { return std::round(value * 1e4) / 1e4; }

Json step_json(std::size_t i, const StepBatch& batch, std::int64_t tokens, const StepReading& s) {
  return {{"step", i + 1},
          {"samples", batch.samples},
          {"tokens", tokens > 0 ? Json(tokens) : Json(nullptr)},
          {"evaluates", batch.evaluates},
          {"requested_bytes", s.live.requested_bytes},
          {"allocated_bytes", s.live.allocated_bytes},
          {"reserved_bytes", s.live.reserved_bytes},
          {"peak_requested_bytes", s.peak.requested_bytes},
          {"peak_allocated_bytes", s.peak.allocated_bytes},
          {"peak_reserved_bytes", s.peak.reserved_bytes}};
}

Json within_json(const std::optional<WithinMemory>& w) {
  if (!w) return nullptr;
  return {{"runs", w->runs},
          {"retries", w->retries},
          {"step", w->runs ? Json(nullptr) : Json(w->step)},
          {"tried_bytes", w->runs ? Json(nullptr) : Json(w->tried_bytes)}};
}

Json lengths_of(const LengthsReport& r) {
  if (r.lengths.empty()) return nullptr;
  const auto [least, most] = std::ranges::minmax(r.lengths);
  return {{"source", r.source},
          {"samples", r.lengths.size()},
          {"shortest", least},
          {"longest", most},
          {"padding", share(r.padding)}};
}

}  // namespace

std::string lengths_json(const LengthsReport& r, std::string_view version) {
  Json steps = Json::array(), others = Json::array();
  for (std::size_t i = 0; i < r.steps.size(); ++i)
    steps.push_back(step_json(i, r.batches[i], r.tokens_of(r.batches[i]), r.steps[i]));
  for (const OtherLoop& o : r.others)
    others.push_back({{"what", o.what},
                      {"flags", text_or_null(o.flags)},
                      {"peak_allocated_bytes", o.allocated_bytes},
                      {"peak_reserved_bytes", o.reserved_bytes},
                      {"padding", share(o.padding)}});
  const std::size_t peak = r.peak_step();
  const bool judged = r.gpu && r.gpu->memory_bytes > 0;
  Json json = document_of("gpuplan.lengths/1", version);
  json["model"] = {{"name", r.model}, {"file", r.file}};
  json["run"] = {{"batch", r.run.batch},
                 {"precision", precision_words(r.run)},
                 {"optimizer", name_of(r.run.optimizer)},
                 {"gpu", r.gpu ? Json(r.gpu->name) : Json(nullptr)},
                 {"pytorch", version_text(r.run.pytorch)}};
  json["lengths"] = lengths_of(r);
  json["peak"] = {{"step", peak + 1},
                  {"at", r.peak_place},
                  {"allocated_bytes", r.steps[peak].peak.allocated_bytes},
                  {"reserved_bytes", r.reserved_bytes()},
                  {"context_bytes", r.context_bytes},
                  {"context_confidence", name_of(r.context_confidence)},
                  {"device_bytes", r.device_bytes()}};
  json["fits"] = judged ? Json(r.fits()) : Json(nullptr);
  json["within_memory"] = within_json(r.within_memory);
  json["steps"] = std::move(steps);
  json["same_samples"] = std::move(others);
  json["assumptions"] = r.assumptions;
  json["warnings"] = r.warnings;
  return json_text(json);
}

std::string lengths_json_schema() {
  constexpr std::string_view kKeys = R"(schema:=gpuplan.lengths/1 tool:{name version:string}
    model:{name file:string}
    run:{batch:integer precision optimizer:string gpu:string? pytorch:string}
    lengths:{source:string samples shortest longest:integer padding:number}?
    peak:{step:integer at:string allocated_bytes reserved_bytes context_bytes device_bytes:integer
      context_confidence:exact|modelled|assumed}
    fits:boolean? within_memory:{runs:boolean retries:integer step tried_bytes:integer?}?
    steps:{step samples:integer tokens:integer? evaluates:boolean requested_bytes allocated_bytes reserved_bytes peak_requested_bytes peak_allocated_bytes
      peak_reserved_bytes:integer}[]
    same_samples:{what:string flags:string? peak_allocated_bytes peak_reserved_bytes:integer padding:number}[]
    assumptions:string[] warnings:string[])";
  return schema::document("gpuplan plan --seq-lengths --format json", kKeys);
}

}  // namespace gpuplan
