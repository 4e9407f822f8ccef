#include <cmath>

#include "estimator/plan/run_names.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/stages_text.h"

namespace gpuplan {
namespace {

// The same text everywhere.
double rounded(double value, double unit) { return std::round(value * unit) / unit; }
double to_the_nanosecond(double seconds) { return rounded(seconds, 1e9); }

Json row_json(const CommunicationRow& row, std::int64_t stage) {
  return {{"what", row.what},
          {"collective", name_of(row.collective)},
          {"stage", stage},
          {"bytes", row.bytes},
          {"sent_bytes", row.sent_bytes},
          {"microseconds", row.seconds ? Json(std::llround(*row.seconds * 1e6)) : Json(nullptr)}};
}

Json time_json(const StagesReport& r) {
  if (!r.time) return nullptr;
  const TransformerTime& t = *r.time;
  const auto batch = static_cast<double>(r.run.batch), gpus = static_cast<double>(r.strategy.gpus);
  const double flops = training_flops(r.transformer, r.run.batch, RecomputeMode::none) / t.step / gpus;
  return {{"step_seconds", to_the_nanosecond(t.step)},
          {"products_seconds", to_the_nanosecond(t.products)},
          {"element_wise_seconds", to_the_nanosecond(t.element_wise)},
          {"head_seconds", to_the_nanosecond(t.head)},
          {"waiting_for_host_seconds", to_the_nanosecond(t.host)},
          {"communication_seconds", to_the_nanosecond(t.sends + t.after)},
          {"idle_seconds", to_the_nanosecond(t.idle)},
          {"optimizer_seconds", to_the_nanosecond(t.optimizer)},
          {"pace_stage", t.pace},
          {"samples_per_second", rounded(batch / t.step, 1e3)},
          {"tokens_per_second", rounded(batch * static_cast<double>(r.transformer.sequence) / t.step, 1e3)},
          {"one_gpu_seconds", to_the_nanosecond(t.alone_seconds)},
          {"scaling_efficiency", rounded(t.efficiency(), 1e4)},
          {"slowest_gpu", rounded(t.slower, 1e4)},
          {"flops_per_second", std::llround(flops)},
          {"peak_flops_per_second", std::llround(r.peak_flops)},
          {"confidence", r.measured ? "measured" : "modelled"}};
}

}  // namespace

std::string stages_json(const StagesReport& r, std::string_view version) {
  Json stages = Json::array(), sends = Json::array();
  for (const StageRow& row : r.stages)
    stages.push_back({{"parameters", row.parameters},
                      {"state_bytes", row.state_bytes},
                      {"micro_batches_in_flight", row.in_flight},
                      {"activation_bytes", row.activation_bytes},
                      {"bytes", row.bytes()}});
  for (const CommunicationRow& row : r.with_micro_batches) sends.push_back(row_json(row, r.sending_stage));
  for (const CommunicationRow& row : r.after_backward) sends.push_back(row_json(row, 0));
  const Transformer& m = r.transformer;
  const Strategy& s = r.strategy;
  const bool judged = r.gpu && r.gpu->memory_bytes > 0;
  Json json = document_of("gpuplan.stages/1", version);
  json["model"] = {{"name", r.model},
                   {"file", r.file},
                   {"layers", m.layers},
                   {"hidden", m.hidden},
                   {"heads", m.heads},
                   {"sequence", m.sequence},
                   {"padded_vocabulary", m.vocabulary}};
  json["run"] = {{"batch", r.run.batch},
                 {"micro_batches", r.run.micro_batches},
                 {"precision", name_of(r.run.precision)},
                 {"optimizer", name_of(r.run.optimizer)},
                 {"checkpoint", r.recompute == RecomputeMode::full ? "block" : "none"},
                 {"gpu", r.gpu ? Json(r.gpu->name) : Json(nullptr)}};
  json["parallel"] = {{"gpus", s.gpus},
                      {"tensor", s.tensor},
                      {"pipeline", s.pipeline},
                      {"data_ranks", s.ranks()},
                      {"data", name_of(s.data)}};
  json["peak"] = {{"stage", r.fullest()},
                  {"bytes", r.stages[r.fullest()].bytes()},
                  {"device_bytes", r.device_bytes()},
                  {"context_bytes", r.context_bytes},
                  {"context_confidence", name_of(r.context_confidence)},
                  {"nccl_bytes", r.nccl_bytes}};
  json["fits"] = judged ? Json(r.fits()) : Json(nullptr);
  json["stages"] = std::move(stages);
  json["communication"] = std::move(sends);
  json["time"] = time_json(r);
  json["why_no_time"] = text_or_null(r.no_time);
  json["warnings"] = r.warnings;
  return json_text(json);
}

std::string stages_json_schema() {
  constexpr std::string_view kKeys = R"(schema:=gpuplan.stages/1 tool:{name version:string}
    model:{name file:string layers hidden heads sequence padded_vocabulary:integer}
    run:{precision:fp16|bf16 optimizer:adam|adamw checkpoint:block|none gpu:string? batch micro_batches:integer}
    parallel:{data:ddp|zero1 gpus tensor pipeline data_ranks:integer}
    peak:{context_confidence:exact|modelled|assumed stage bytes device_bytes context_bytes nccl_bytes:integer}
    fits:boolean?
    stages:{parameters state_bytes micro_batches_in_flight activation_bytes bytes:integer}[]
    communication:{what collective:string microseconds:integer? stage bytes sent_bytes:integer}[]
    time:{pace_stage flops_per_second peak_flops_per_second:integer confidence:measured|modelled
      step_seconds products_seconds element_wise_seconds head_seconds waiting_for_host_seconds communication_seconds
      idle_seconds optimizer_seconds samples_per_second tokens_per_second one_gpu_seconds scaling_efficiency slowest_gpu:number}?
    why_no_time:string? warnings:string[])";
  return schema::document("gpuplan plan --tp --pp --format json", kKeys);
}

}  // namespace gpuplan
