#include "estimator/report/json_parts.h"
#include "estimator/report/serve_report.h"

namespace gpuplan {
namespace {

Json hints_json(const EngineStart& start) {
  Json out = Json::array();
  for (const StartHint& hint : start.hints) out.push_back({{"flag", hint.flag}, {"result", hint.result}});
  return out;
}

Json spread_json(const Quantiles& s) { return {{"mean", s.mean}, {"p50", s.p50}, {"p90", s.p90}, {"p99", s.p99}}; }

Json point_json(const LoadPoint& p) {
  const ServedLoad& l = p.load;
  return {{"requests_per_second", p.rate},         {"ttft_seconds", spread_json(l.first_token)},
          {"tpot_seconds", spread_json(l.token)},  {"output_tokens_per_second", l.output_rate},
          {"finished_per_second", l.request_rate}, {"mean_running", l.mean_running},
          {"most_running", l.most_running},        {"most_cache_tokens", l.most_cache},
          {"preemptions", l.preemptions},          {"limit", l.limit}};
}

Json load_json(const LoadAnswer& load) {
  Json out = point_json(load.point);
  out["words"] = load.words;
  out["slo"] = text_or_null(load.slo_words);
  out["highest"] = load.highest ? point_json(*load.highest) : Json(nullptr);
  out["curve"] = Json::array();
  for (const LoadPoint& p : load.curve) out["curve"].push_back(point_json(p));
  out["offer"] =
      load.offer
          ? Json{{"name", load.offer->name}, {"usd_per_hour", load.offer->usd}, {"price_date", load.offer->dated}}
          : Json(nullptr);
  out["usd_per_million_output_tokens"] = or_null(load.usd_per_million());
  return out;
}

Json parts_json(const std::vector<MemoryPart>& parts) {
  Json out = Json::array();
  for (const MemoryPart& part : parts) out.push_back({{"name", part.name}, {"bytes", part.bytes}, {"note", part.note}});
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
  out["utilization"] = s.utilization;
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
  out["parts"] = parts_json(s.parts);
  out["outside"] = parts_json(s.outside);
  out["load"] = report.load ? load_json(*report.load) : Json(nullptr);
  out["hints"] = hints_json(s);
  out["warnings"] = report.warnings;
  return json_text(out);
}

std::string serve_json_schema() {
  static constexpr const char* kPoint =
      "requests_per_second:number ttft_seconds tpot_seconds:$spread output_tokens_per_second finished_per_second "
      "mean_running:number most_running most_cache_tokens preemptions:integer limit:string";
  return schema::document(
      "What gpuplan serve --format json writes",
      "schema:=gpuplan.serve/1 tool:{name version:string} model file gpu engine precision:string parameters "
      "tensor_ranks:integer starts:boolean error:string? kv_tokens:integer "
      "sequences_at_length:number length max_batched_tokens max_sequences:integer "
      "utilization:number memory:$memory parts:$part[] outside:$part[] load:$load? hints:$hint[] warnings:string[]",
      {{"memory",
        "{gpu_bytes requested_bytes weights_bytes consumed_bytes profile_bytes:integer "
        "profile_peak:string graphs_bytes kv_cache_bytes block_bytes block_tokens blocks:integer}"},
       {"part", "{name:string bytes:integer note:string}"},
       {"spread", "{mean p50 p90 p99:number}"},
       {"point", "{" + std::string(kPoint) + "}"},
       {"offer", "{name:string usd_per_hour:number price_date:string}"},
       {"load", "{" + std::string(kPoint) +
                    " words:string slo:string? highest:$point? curve:$point[] offer:$offer? "
                    "usd_per_million_output_tokens:number?}"},
       {"hint", "{flag result:string}"}});
}

}  // namespace gpuplan
