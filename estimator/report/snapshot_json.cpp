#include "estimator/report/json_parts.h"
#include "estimator/report/snapshot_report_writers.h"

namespace gpuplan {
namespace {

Json reading_json(const SnapshotReading& r) {
  return {{"allocated_bytes", r.allocated_bytes},
          {"requested_bytes", r.requested_bytes},
          {"reserved_bytes", r.reserved_bytes}};
}

Json line_json(const std::string& text, const std::string& file, std::int32_t line) {
  return {{"text", text}, {"file", text_or_null(file)}, {"line", file.empty() ? Json(nullptr) : Json(line)}};
}

Json failure_json(const SnapshotFailure& f) {
  Json ways = Json::array();
  for (const SnapshotWay& way : f.ways)
    ways.push_back({{"setting", way.words},
                    {"runs", way.runs},
                    {"short_bytes", way.runs ? Json(nullptr) : Json(way.short_bytes)}});
  return {{"event", f.reading.event},
          {"line", f.text},
          {"asked_bytes", f.reading.asked_bytes},
          {"free_bytes", f.reading.free_bytes},
          {"allocated_bytes", f.reading.at.allocated_bytes},
          {"reserved_bytes", f.reading.at.reserved_bytes},
          {"largest_free_bytes", or_null(f.reading.largest_free_bytes)},
          {"ways", ways}};
}

Json device_json(const SnapshotReport& r) {
  const SnapshotHistory& h = r.history;
  Json alive = Json::array(), steps = Json::array(), growth = Json::array(), failures = Json::array();
  for (const SnapshotShare& s : r.alive) {
    Json share = line_json(s.text, s.file, s.line);
    share.update({{"bytes", s.bytes}, {"tensors", s.tensors}});
    alive.push_back(std::move(share));
  }
  for (const SnapshotStep& s : r.steps)
    steps.push_back({{"peak_allocated_bytes", s.peak_bytes}, {"allocated_bytes", s.end_bytes}});
  for (const SnapshotGrowth& g : r.growth) {
    Json line = line_json(g.text, g.file, g.line);
    line["bytes_a_step"] = g.bytes_of_step;
    growth.push_back(std::move(line));
  }
  for (const SnapshotFailure& f : r.failures) failures.push_back(failure_json(f));
  Json kinds = nullptr, phases = Json::array(), modules = Json::array();
  for (const SnapshotPhase& p : r.phases) phases.push_back({{"phase", p.name}, {"peak_allocated_bytes", p.peak_bytes}});
  for (const SnapshotShare& s : r.modules)
    modules.push_back({{"module", s.text}, {"bytes", s.bytes}, {"tensors", s.tensors}});
  if (!r.kinds.empty())
    kinds = {{"kept_bytes", r.kinds[0]},
             {"optimizer_bytes", r.kinds[1]},
             {"gradient_bytes", r.kinds[2]},
             {"passing_bytes", r.kinds[3]}};
  Json peak = reading_json(h.peak);
  peak.update({{"reserved_bytes_then", h.reserved_at_peak},
               {"event", h.peak_event == kBeforeHistory ? Json(nullptr) : Json(h.peak_event)},
               {"line", text_or_null(r.peak_at)},
               {"step", r.peak_step > 0 ? Json(r.peak_step) : Json(nullptr)}});
  Json end = reading_json(h.end);
  end.update(
      {{"segments", r.segments}, {"largest_free_bytes", r.largest_free_bytes}, {"inactive_bytes", r.inactive_bytes}});
  return {{"device", r.device},
          {"events", r.events},
          {"whole", h.whole},
          {"adds_up", h.adds_up},
          {"peak", peak},
          {"end", end},
          {"alive_at_peak", alive},
          {"alive_by_module", modules},
          {"by_lifetime", kinds},
          {"phases", phases},
          {"steps", steps},
          {"growth", growth},
          {"out_of_memory", failures}};
}

}  // namespace

std::string snapshot_json(const SnapshotPage& page, std::string_view version) {
  Json json = document_of("gpuplan.snapshot/1", version);
  json["file"] = page.file;
  json["alloc_conf"] = text_or_null(page.alloc_conf);
  Json devices = Json::array();
  for (const SnapshotReport& device : page.devices) devices.push_back(device_json(device));
  json["devices"] = devices;
  json["warnings"] = page.warnings;
  return json_text(json);
}

std::string snapshot_json_schema() {
  constexpr std::string_view kKeys =
      R"(schema:=gpuplan.snapshot/1 tool:{name version:string} file:string alloc_conf:string?
    devices:{device events:integer whole adds_up:boolean
      peak:{allocated_bytes requested_bytes reserved_bytes reserved_bytes_then:integer event:integer? line:string? step:integer?}
      end:{allocated_bytes requested_bytes reserved_bytes segments largest_free_bytes inactive_bytes:integer}
      alive_at_peak:{text:string file:string? line:integer? bytes tensors:integer}[]
      alive_by_module:{module:string bytes tensors:integer}[]
      by_lifetime:{kept_bytes optimizer_bytes gradient_bytes passing_bytes:integer}?
      phases:{phase:string peak_allocated_bytes:integer}[] steps:{peak_allocated_bytes allocated_bytes:integer}[]
      growth:{text:string file:string? line:integer? bytes_a_step:integer}[]
      out_of_memory:{event:integer line:string asked_bytes free_bytes allocated_bytes reserved_bytes:integer
        largest_free_bytes:integer? ways:{setting:string runs:boolean short_bytes:integer?}[]}[]}[]
    warnings:string[])";
  return schema::document("gpuplan snapshot --format json", kKeys);
}

}  // namespace gpuplan
