#include "estimator/report/json_parts.h"
#include "validate/shadow/host/run_report.h"
#include "validate/shadow/host/run_words.h"

namespace gpuplan::shadow {
namespace {

Json peak_json(const RankReport& rank) {
  return {{"allocated_bytes", rank.peak.allocated}, {"requested_bytes", rank.peak.requested},
          {"reserved_bytes", rank.peak.reserved},   {"device_bytes", rank.device_bytes},
          {"context_bytes", rank.context_bytes},    {"when", text_or_null(rank.alive.when)}};
}

Json steps_json(const RankReport& rank) {
  Json list = Json::array();
  for (const StepRecord& step : rank.steps)
    list.push_back({{"step", step.index},
                    {"allocated_bytes", step.peak.allocated},
                    {"requested_bytes", step.peak.requested},
                    {"reserved_bytes", step.peak.reserved},
                    {"kernels", step.kernels}});
  return list;
}

Json alive_json(const RankReport& rank) {
  Json categories = Json::array(), lines = Json::array();
  for (const auto& [name, bytes] : rank.alive.categories) categories.push_back({{"category", name}, {"bytes", bytes}});
  for (const AliveLine& line : rank.alive.lines)
    lines.push_back({{"file", line.file},
                     {"line", line.line},
                     {"function", line.function},
                     {"code", line.code},
                     {"bytes", line.bytes},
                     {"blocks", line.blocks}});
  return {{"categories", std::move(categories)}, {"lines", std::move(lines)}};
}

// The figures of one rank: of the fullest at the top, of each in `ranks`.
Json figures_json(const RankReport& rank) {
  return {{"peak", peak_json(rank)},         {"segments", rank.segments}, {"retries", rank.retries},
          {"graph_bytes", rank.graph_bytes}, {"kernels", rank.kernels},   {"allocations", rank.allocations},
          {"steps", steps_json(rank)},       {"alive", alive_json(rank)}};
}

Json ranks_json(const RunReport& report) {
  Json list = Json::array();
  for (const RankReport& rank : report.ranks) {
    Json json = {
        {"rank", rank.rank < 0 ? Json(nullptr) : Json(rank.rank)}, {"process", rank.process}, {"device", rank.device}};
    json.update(figures_json(rank));
    list.push_back(std::move(json));
  }
  return list;
}

Json out_of_memory_json(const RunReport& report) {
  if (!report.out_of_memory) return nullptr;
  const OutOfMemory& oom = *report.out_of_memory;
  return {{"wanted_bytes", oom.wanted_bytes},
          {"free_bytes", oom.free_bytes},
          {"allocated_bytes", oom.allocated_bytes},
          {"reserved_bytes", oom.reserved_bytes},
          {"device", oom.device},
          {"rank", report.out_of_memory_rank < 0 ? Json(nullptr) : Json(report.out_of_memory_rank)},
          {"message", text_or_null(oom.message)}};
}

Json fits_json(const RunReport& report) {
  Json list = Json::array();
  for (const FitRow& row : report.fits)
    list.push_back({{"gpu", row.gpu}, {"title", row.title}, {"usable_bytes", row.usable_bytes}, {"fits", row.fits}});
  return list;
}

Json compiled_json(const Compiled& compiled) {
  Json breaks = Json::array();
  for (const GraphBreak& place : compiled.breaks)
    breaks.push_back({{"file", place.file}, {"line", place.line}, {"reason", place.reason}, {"times", place.times}});
  return {{"graphs", compiled.graphs}, {"breaks", std::move(breaks)}};
}

Json decided_json(const std::vector<Decision>& decided) {
  Json list = Json::array();
  for (const Decision& read : decided)
    list.push_back({{"file", read.file},
                    {"line", read.line},
                    {"function", read.function},
                    {"times", read.times},
                    {"drawn", read.drawn}});
  return list;
}

Json engine_json(const Engine& engine) {
  if (engine.name.empty()) return nullptr;
  Json parts = Json::array();
  for (const auto& [name, bytes] : engine.parts) parts.push_back({{"part", name}, {"bytes", bytes}});
  return {{"name", engine.name}, {"parts", std::move(parts)}, {"lines", engine.lines}};
}

}  // namespace

std::string run_json(const RunReport& report, std::string_view version) {
  const Settings& settings = report.settings;
  const bool imagined = settings.peers == Peers::imagined;
  Json json = document_of("gpuplan.shadow/1", version);
  json["gpu"] = report.gpu;
  json["gpu_title"] = report.gpu_title;
  json["capacity_bytes"] = report.capacity_bytes;
  json["gpus"] = settings.devices;
  json["world"] = imagined ? Json(settings.world) : Json(nullptr);
  json["rank"] = imagined ? Json(settings.rank) : Json(nullptr);
  json["command"] = report.command;
  json["exit_code"] = report.ending.signal != 0 ? 128 + report.ending.signal : report.ending.status;
  json["gpuplan_exit_code"] = report.exit_code;
  json["end"] = text_or_null(report.end_reason);
  json["out_of_memory"] = out_of_memory_json(report);
  json["max_peak_bytes"] = or_null(report.max_peak_bytes);
  json["over_max_peak"] = report.over_max_peak;
  json.update(figures_json(report.ranks.empty() ? RankReport{} : report.ranks[report.fullest]));
  json["fits"] = fits_json(report);
  json["compiled"] = compiled_json(report.compiled);
  json["autotuned"] = {{"operators", report.autotuned.operators},
                       {"configurations", report.autotuned.configurations},
                       {"workspace_bytes", report.autotuned.workspace_bytes}};
  json["decided"] = decided_json(report.decided);
  json["engine"] = engine_json(report.engine);
  json["unknown"] = unknown_words(report);
  json["problems"] = Json::array();
  for (const Problem& problem : report.problems)
    json["problems"].push_back({{"code", problem.code}, {"text", problem.text}});
  json["ranks"] = ranks_json(report);
  json["versions"] = {{"torch", text_or_null(report.torch)},
                      {"cuda", text_or_null(report.cuda)},
                      {"python", text_or_null(report.python)}};
  return json_text(json);
}

}  // namespace gpuplan::shadow
