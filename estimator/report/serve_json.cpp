#include "estimator/report/json_parts.h"
#include "estimator/report/serve_report.h"

namespace gpuplan {
namespace {

Json hints_json(const EngineStart& start) {
  Json out = Json::array();
  for (const StartHint& hint : start.hints) out.push_back({{"flag", hint.flag}, {"result", hint.result}});
  return out;
}

}  // namespace

std::string serve_json(const ServeReport& report, std::string_view version) {
  const EngineStart& s = report.start;
  Json out = document_of("gpuplan.serve/1", version);
  out["model"] = report.model;
  out["file"] = report.file;
  out["gpu"] = report.gpu;
  out["engine"] = s.engine;
  out["precision"] = report.precision;
  out["parameters"] = report.parameters;
  out["tensor_ranks"] = report.settings.tensor_ranks;
  out["starts"] = s.starts;
  out["error"] = text_or_null(s.error);
  out["kv_tokens"] = s.limits.cache_tokens;
  out["sequences_at_length"] = s.sequences_at_length;
  out["length"] = s.limits.length;
  out["max_batched_tokens"] = s.limits.batched_tokens;
  out["max_sequences"] = s.limits.sequences;
  out["utilization"] = report.settings.utilization;
  out["memory"] = {{"gpu_bytes", s.gpu_bytes},
                   {"requested_bytes", s.requested_bytes},
                   {"weights_bytes", s.weights_bytes},
                   {"consumed_bytes", s.consumed_bytes},
                   {"profile_bytes", s.profile_bytes},
                   {"profile_peak", s.profile_peak},
                   {"graphs_bytes", s.graphs_bytes},
                   {"kv_cache_bytes", s.cache_bytes},
                   {"block_bytes", s.block_bytes},
                   {"block_tokens", s.limits.block_tokens},
                   {"blocks", s.blocks}};
  out["hints"] = hints_json(s);
  out["warnings"] = report.warnings;
  return json_text(out);
}

std::string serve_json_schema() {
  return schema::document("What gpuplan serve --format json writes",
                          "schema:=gpuplan.serve/1 tool:string model file gpu engine precision:string parameters "
                          "tensor_ranks:integer starts:boolean error:string? kv_tokens:integer "
                          "sequences_at_length:number length max_batched_tokens max_sequences:integer "
                          "utilization:number memory:$memory hints:$hint[] warnings:string[]",
                          {{"memory",
                            "gpu_bytes requested_bytes weights_bytes consumed_bytes profile_bytes:integer "
                            "profile_peak:string graphs_bytes kv_cache_bytes block_bytes block_tokens blocks:integer"},
                           {"hint", "flag result:string"}});
}

}  // namespace gpuplan
