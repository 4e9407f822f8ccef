#include "estimator/report/replay_report.h"

#include "estimator/base/format.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/text_table.h"

namespace gpuplan {
namespace {

struct ReplayFigure {
  const char* key;
  const char* words;
  std::int64_t replayed = 0;
  std::optional<std::int64_t> recorded;
};

std::vector<ReplayFigure> figures_of(const ReplayedRun& run) {
  const ReplayReport& r = run.replayed;
  return {{"peak_allocated", "peak allocated", r.peak_allocated_bytes, run.peak_allocated_bytes},
          {"peak_requested", "peak requested", r.peak_requested_bytes, run.peak_requested_bytes},
          {"peak_reserved", "peak reserved", r.peak_reserved_bytes, run.peak_reserved_bytes},
          {"fragmentation_at_peak", "fragmentation at the peak", r.fragmentation_bytes, {}},
          {"peak_inactive_split", "peak inactive split", r.peak_inactive_split_bytes, {}},
          {"inactive_split_at_end", "inactive split at the end", r.inactive_split_bytes, {}},
          {"largest_free_at_end", "largest free at the end", r.largest_free_bytes, run.largest_free_bytes}};
}

}  // namespace

std::string replay_text(const ReplayedRun& run, const TextStyle& style) {
  using enum TextTable::Align;
  const bool beside = run.peak_allocated_bytes.has_value();
  std::vector<TextTable::Align> columns = {left, right, right};
  std::vector<std::string> heading = {"", "replayed, B", ""};
  if (beside) {
    columns.insert(columns.end(), {right, right});
    heading.insert(heading.end(), {"recorded, B", ""});
  }
  TextTable table(columns);
  table.row(heading);
  for (const ReplayFigure& f : figures_of(run)) {
    std::vector<std::string> row = {f.words, format_count(f.replayed), format_bytes(f.replayed, style.units)};
    if (beside) {
      row.push_back(f.recorded ? format_count(*f.recorded) : "");
      row.push_back(f.recorded ? format_bytes(*f.recorded, style.units) : "");
    }
    table.row(row);
  }
  std::string out = table.text() + "  " + format_count(run.replayed.allocations) + " allocations, " +
                    format_count(run.replayed.segments) + " segments at the end\n";
  if (run.checked) out += "  all addresses match the recording\n";
  if (run.replayed.out_of_memory) {
    const OutOfMemory& oom = *run.replayed.out_of_memory;
    out += "  " + mark_of(false, style) + " out of memory on " + run.gpu +
           ", beside the CUDA context: " + format_bytes(oom.requested_bytes, style.units) + " requested with " +
           format_bytes(oom.allocated_bytes, style.units) + " allocated and " +
           format_bytes(oom.reserved_bytes, style.units) + " reserved\n";
  }
  return out;
}

std::string replay_json(const ReplayedRun& run, std::string_view version) {
  Json json = document_of("gpuplan.replay/1", version), figures = Json::array();
  for (const ReplayFigure& f : figures_of(run))
    figures.push_back({{"figure", f.key}, {"replayed_bytes", f.replayed}, {"recorded_bytes", or_null(f.recorded)}});
  Json oom = nullptr;
  if (run.replayed.out_of_memory)
    oom = {{"requested_bytes", run.replayed.out_of_memory->requested_bytes},
           {"allocated_bytes", run.replayed.out_of_memory->allocated_bytes},
           {"reserved_bytes", run.replayed.out_of_memory->reserved_bytes}};
  json.update({{"file", run.file},
               {"alloc_conf", run.alloc_conf},
               {"gpu", text_or_null(run.gpu)},
               {"limit_bytes", run.gpu.empty() ? Json(nullptr) : Json(run.limit_bytes)},
               {"addresses_match", run.checked ? Json(true) : Json(nullptr)},
               {"figures", figures},
               {"allocations", run.replayed.allocations},
               {"segments", run.replayed.segments},
               {"out_of_memory", oom},
               {"warnings", run.warnings}});
  return json_text(json);
}

std::string replay_json_schema() {
  constexpr std::string_view kKeys = R"(schema:=gpuplan.replay/1 tool:{name version:string} file alloc_conf:string
    gpu:string? limit_bytes:integer? addresses_match:boolean?
    figures:{figure:string replayed_bytes:integer recorded_bytes:integer?}[] allocations segments:integer
    out_of_memory:{requested_bytes allocated_bytes reserved_bytes:integer}? warnings:string[])";
  return schema::document("gpuplan.replay/1", kKeys);
}

}  // namespace gpuplan
