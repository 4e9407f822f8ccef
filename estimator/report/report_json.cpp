#include <cmath>

#include "estimator/plan/run_names.h"
#include "estimator/report/advice_text.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/several_gpus_json.h"
#include "estimator/report/writers.h"

namespace gpuplan {

namespace {

Json sizes_of(const Shape& shape) {
  Json list = Json::array();
  for (const std::int64_t n : shape.sizes()) list.push_back(n);
  return list;
}

Json generation_json(const Generation& g) {
  if (g.part == Generation::Part::none) return nullptr;
  return {{"phase", name_of(g.part)}, {"prompt", g.prompt}, {"generate", g.generate}, {"cache", name_of(g.cache)}};
}

Json run_json(const Report& report) {
  const RunConfig& run = report.run;
  const bool training = run.mode == Mode::train;
  Json json = {{"mode", name_of(run.mode)}, {"batch", run.batch}, {"precision", precision_text(run)}};
  json["amp"] = run.autocast ? Json(name_of(*run.autocast)) : Json(nullptr);
  json["optimizer"] = training ? Json(name_of(run.optimizer)) : Json(nullptr);
  json["gpu"] = report.gpu ? Json(report.gpu->name) : Json(nullptr);
  json["loop"] = name_of(run.loop);
  json["zero_grad"] = run.gradients_live_in_forward() ? "backward" : "forward";
  json["kernels"] = name_of(run.kernels);
  json["like"] = name_of(run.like);
  json["pytorch"] = version_text(run.pytorch);
  json["optimizer_impl"] = training && !run.optimizer.recorder ? Json(name_of(run.optimizer.impl)) : Json(nullptr);
  json["weight_decay"] = run.optimizer.weight_decay;
  json["clip_grad_norm"] = run.clip_grad_norm;
  if (run.save != SavedCheckpoint::none) json["save"] = name_of(run.save);
  json["micro_batches"] = run.micro_batches;
  json["checkpoint"] = checkpoint_text(run.checkpoint);
  json["layout"] = name_of(run.layout);
  json["attention"] = name_of(run.attention);
  json["master_weights"] = run.master_weights ? Json("fp32") : Json(nullptr);
  json["optimizer_in_backward"] = run.optimizer_in_backward;
  json["offload"] = {{"optimizer", run.offload_optimizer}, {"saved", run.offload_saved}};
  json["weights"] = run.weights == WeightFormat::as_computed ? Json(nullptr) : Json(name_of(run.weights));
  json["lora"] = run.lora ? Json(lora_text(*run.lora)) : Json(nullptr);
  json["generation"] = generation_json(run.generation);
  json["labels"] = run.labels;
  json["scratch"] = name_of(run.scratch);
  json["allocator"] = name_of(run.allocator);
  json["segments"] = name_of(run.segments);
  json["alloc_conf"] = run.alloc_conf;
  json["step"] = run.first_step ? "first" : "steady";
  return json;
}

Json tensor_peak_json(const Report& report) {
  const auto& peak = report.tensor_peak;
  return {{"bytes", peak.bytes},
          {"phase", name_of(peak.phase)},
          {"op", peak.op},
          {"layer", peak.layer},
          {"forward_bytes", peak.forward_bytes},
          {"backward_bytes", peak.backward_bytes},
          {"optimizer_bytes", peak.optimizer_bytes},
          {"after_model_bytes", peak.after_model_bytes},
          {"end_of_forward_bytes", peak.end_of_forward_bytes}};
}

Json peak_json(const Report& report) {
  const auto& peak = report.peak;
  Json parts = Json::array(), modules = Json::array();
  for (const PeakPart& part : peak.parts)
    parts.push_back(
        {{"category", name_of(part.category)}, {"bytes", part.bytes}, {"confidence", name_of(part.confidence)}});
  for (const ModuleBytes& module : peak.modules) modules.push_back({{"name", module.name}, {"bytes", module.bytes}});
  return {{"allocated_bytes", peak.reading.allocated_bytes},
          {"requested_bytes", peak.reading.requested_bytes},
          {"reserved_bytes", peak.reading.reserved_bytes},
          {"device_bytes", peak.device_bytes},
          {"context_bytes", peak.context_bytes},
          {"context_confidence", name_of(peak.context_confidence)},
          {"phase", name_of(peak.phase)},
          {"op", peak.op},
          {"layer", peak.layer},
          {"parts", std::move(parts)},
          {"modules", std::move(modules)}};
}

// What the GPU has, and what the step may take of it. Null where no GPU was named, or how much memory it has is not
// known.
void tell_verdict(const Report& report, Json& json) {
  const Verdict v = verdict(report);
  json["fits"] = v.known ? Json(v.fits) : Json(nullptr);
  const Margin& margin = report.margin;
  json["usable_bytes"] = v.known ? Json(margin.hundredths > 0 ? margin.usable_bytes : v.usable_bytes) : Json(nullptr);
  json["limit_bytes"] = v.known ? Json(v.usable_bytes) : Json(nullptr);
  json["margin"] = static_cast<double>(margin.hundredths) / 1e4;
}

// Null where no bound is known.
Json at_most_json(const std::optional<AtMost>& bound) {
  if (!bound) return nullptr;
  Json terms = Json::array();
  for (const AtMost::Term& t : bound->terms)
    terms.push_back({{"id", t.id},
                     {"allocated_bytes", t.allocated_bytes},
                     {"reserved_bytes", t.reserved_bytes},
                     {"device_bytes", t.device_bytes},
                     {"source", t.source}});
  return {{"allocated_bytes", bound->allocated_bytes},
          {"reserved_bytes", bound->reserved_bytes},
          {"device_bytes", bound->device_bytes},
          {"terms", std::move(terms)}};
}

// Null where the step fits, or no GPU was named.
Json within_memory_json(const Report& report) {
  if (!report.within_memory) return nullptr;
  const WithinMemory& w = *report.within_memory;
  Json failure = nullptr;
  if (!w.runs) {
    failure = {{"wanted_bytes", w.tried_bytes},
               {"allocated_bytes", w.allocated_bytes},
               {"reserved_bytes", w.reserved_bytes},
               {"step", w.step},
               {"phase", name_of(w.phase)},
               {"op", w.op},
               {"layer", w.layer}};
  }
  return {{"runs", w.runs}, {"retries", w.retries}, {"out_of_memory", std::move(failure)}};
}

Json phases_json(const Report& report) {
  Json list = Json::array();
  for (const PhaseRow& row : report.phases)
    list.push_back({{"step", row.steady ? "steady" : "first"},
                    {"phase", name_of(row.phase)},
                    {"requested_bytes", row.live.requested_bytes},
                    {"allocated_bytes", row.live.allocated_bytes},
                    {"reserved_bytes", row.live.reserved_bytes},
                    {"peak_requested_bytes", row.peak.requested_bytes},
                    {"peak_allocated_bytes", row.peak.allocated_bytes},
                    {"peak_reserved_bytes", row.peak.reserved_bytes},
                    {"kernels", row.kernels}});
  return list;
}

Json compute_json(const Report& report) {
  const auto& c = report.compute;
  return {{"forward_macs", c.forward_macs},
          {"forward_flops", c.forward_flops},
          {"backward_flops", c.backward_flops},
          {"recompute_flops", c.recompute_flops},
          {"optimizer_flops", c.optimizer_flops},
          {"step_flops", c.step_flops},
          {"elementwise_flops", c.elementwise_flops},
          {"bytes_moved", c.bytes_moved},
          {"per_mac", 2}};
}

// To a nanosecond: what is computed with floating point is the same text everywhere.
double nanoseconds(double seconds) { return std::round(seconds * 1e9) / 1e9; }

// Null where times are not known. The arithmetic and the traffic are of forward and backward, by what kernels do.
Json layer_time_json(const Report& report, const LayerRow& layer) {
  if (!report.time) return nullptr;
  const auto ratio = [](std::int64_t a, std::int64_t b) {
    return b == 0 ? 0.0 : std::round(1000 * static_cast<double>(a) / static_cast<double>(b)) / 1000;
  };
  return {{"forward_seconds", nanoseconds(1e-9 * static_cast<double>(layer.forward_ns))},
          {"backward_seconds", nanoseconds(1e-9 * static_cast<double>(layer.backward_ns))},
          {"busy_seconds", nanoseconds(1e-9 * static_cast<double>(layer.busy_ns))},
          {"bound", name_of(layer.bound)},
          {"flops", layer.work_flops},
          {"bytes_moved", layer.work_bytes},
          {"flops_per_byte", ratio(layer.work_flops, layer.work_bytes)}};
}

Json layer_json(const Report& report, const LayerRow& layer) {
  Json inputs = Json::array();
  for (const Shape& shape : layer.input_shapes) inputs.push_back(sizes_of(shape));
  return {{"name", layer.name},
          {"type", layer.type},
          {"at", layer.file + ":" + std::to_string(layer.line) + ":" + std::to_string(layer.column)},
          {"input_shapes", std::move(inputs)},
          {"output_shape", sizes_of(layer.output_shape)},
          {"parameters", layer.parameters},
          {"forward_macs", layer.forward_macs},
          {"backward_flops", layer.backward_flops},
          {"recompute_flops", layer.recompute_flops},
          {"elementwise_flops", layer.elementwise_flops},
          {"saved_bytes", layer.saved_bytes},
          {"output_bytes", layer.output_bytes},
          {"time", layer_time_json(report, layer)}};
}

Json model_json(const Report& report) {
  const auto& model = report.model;
  return {{"name", model.name},
          {"file", model.file},
          {"verified", text_or_null(model.verified)},
          {"parameters", model.parameters},
          {"trainable_parameters", model.trainable_parameters},
          {"buffers", model.buffers},
          {"layers", model.layers},
          {"checkpointed_blocks", model.checkpointed_blocks}};
}

Json bytes_json(const Report& report) {
  const auto& bytes = report.bytes;
  return {{"parameters", bytes.parameters}, {"buffers", bytes.buffers},
          {"gradients", bytes.gradients},   {"optimizer_state", bytes.optimizer_state},
          {"inputs", bytes.inputs},         {"saved_for_backward", bytes.saved_for_backward},
          {"kv_cache", bytes.kv_cache}};
}

Json roofs_json(const StepTime& time) {
  Json roofs = Json::array();
  for (const Roof& roof : time.roofs)
    roofs.push_back({{"type", roof.name},
                     {"flops_per_second", std::llround(roof.flops_per_second)},
                     {"ridge_flops_per_byte", std::round(1000 * roof.flops_per_second / time.peak_bytes) / 1000}});
  return roofs;
}

Json time_json(const std::optional<StepTime>& time, const std::string& why_not) {
  if (!time) {
    Json json = {{"step_seconds", nullptr}, {"bound", nullptr}};
    if (!why_not.empty()) json["why_not"] = why_not;
    return json;
  }
  return {{"step_seconds", nanoseconds(time->seconds())},
          {"bound", std::string(name_of(time->bound))},
          {"copy_seconds", nanoseconds(time->copy_seconds)},
          {"forward_seconds", nanoseconds(time->forward_seconds)},
          {"loss_seconds", nanoseconds(time->loss_seconds)},
          {"backward_seconds", nanoseconds(time->backward_seconds)},
          {"clip_seconds", nanoseconds(time->clip_seconds)},
          {"optimizer_seconds", nanoseconds(time->optimizer_seconds)},
          {"communication_seconds", nanoseconds(time->communication_seconds)},
          {"bubble_seconds", nanoseconds(time->bubble_seconds)},
          {"compute_bound_seconds", nanoseconds(time->compute_seconds)},
          {"memory_bound_seconds", nanoseconds(time->memory_seconds)},
          {"waiting_for_host_seconds", nanoseconds(time->waiting_seconds)},
          {"samples", time->samples},
          {"tokens", time->tokens},
          {"flops_per_second", std::llround(time->flops_per_second)},
          {"peak_flops_per_second", std::llround(time->peak_flops)},
          {"bytes_per_second", std::llround(time->peak_bytes)},
          {"roofs", roofs_json(*time)},
          {"confidence", time->measured ? "modelled from measurements" : "modelled"}};
}

Json advice_json(const std::vector<Advice>& advice) {
  Json list = Json::array();
  for (const Advice& a : advice)
    list.push_back({{"kind", name_of(a.kind)},
                    {"change", a.change},
                    {"reason", a.reason},
                    {"step_seconds", nanoseconds(a.step_seconds)},
                    {"gain", std::round(1000 * a.gain) / 1000},
                    {"device_bytes", a.device_bytes},
                    {"fits", a.fits}});
  return list;
}

}  // namespace

std::string report_json(const Report& report, std::string_view version) {
  Json json = document_of("gpuplan.plan/1", version);
  json["model"] = model_json(report);
  json["run"] = run_json(report);
  json["bytes"] = bytes_json(report);
  if (!report.rank || !report.rank->stage) json["tensor_peak"] = tensor_peak_json(report);
  json["peak"] = peak_json(report);
  tell_verdict(report, json);
  json["at_most"] = at_most_json(report.at_most);
  json["within_memory"] = within_memory_json(report);
  json["phases"] = phases_json(report);
  json["compute"] = compute_json(report);
  json["offload"] = {{"to_host_bytes", report.offload_bytes_to_host},
                     {"from_host_bytes", report.offload_bytes_from_host}};
  json["time"] = time_json(report.time, report.no_time);
  json["allocator"] = {{"segments", report.allocator.segments},
                       {"allocations", report.allocator.allocations},
                       {"inactive_split_bytes", report.allocator.inactive_split_bytes}};
  if (!report.count_as.tool.empty())
    json["count_as"] = {{"tool", report.count_as.tool},
                        {"unit", report.count_as.unit},
                        {"per_sample", report.count_as.per_sample},
                        {"batch", report.count_as.batch}};
  if (report.advice) json["advice"] = advice_json(*report.advice);
  json["layers"] = Json::array();
  for (const LayerRow& layer : report.layers) json["layers"].push_back(layer_json(report, layer));
  json["assumptions"] = Json::array();
  for (const Assumption& a : report.assumptions) json["assumptions"].push_back({{"id", a.id}, {"text", a.text}});
  json["warnings"] = report.warnings;
  if (report.rank) json["parallel"] = parallel_json(report);
  return json_text(json);
}

}  // namespace gpuplan
