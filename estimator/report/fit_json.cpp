#include "estimator/plan/run_names.h"
#include "estimator/report/fit_table.h"
#include "estimator/report/json_parts.h"

namespace gpuplan {
namespace {

Json batch_json(const FittingBatch& batch) {
  if (batch.samples == 0) return nullptr;
  return {{"batch", batch.samples}, {"device_bytes", batch.bytes}};
}

Json instance_json(const FitRow& row, Day today) {
  if (!row.instance) return nullptr;
  const Instance& i = *row.instance;
  const std::optional<Day> day = oldest_day(i.price_date);
  return {{"provider", i.provider},
          {"name", i.name},
          {"gpu_count", i.gpu_count},
          {"count", row.instances},
          {"idle_gpus", row.idle_gpus()},
          {"region", text_or_null(i.region)},
          {"usd_per_hour", *row.usd},
          {"price_date", i.price_date},
          {"price_age_days", day ? Json(today - *day) : Json(nullptr)},
          {"source", text_or_null(i.source)}};
}

Json row_json(const FitRow& row, const FitQuestion& question, Day today) {
  const std::optional<double> epoch = epoch_seconds(row, question);
  const std::optional<double> run = epoch ? std::optional(*epoch * question.epochs) : std::nullopt;
  return {{"gpu", row.gpu.name},
          {"title", row.gpu.title},
          {"gpus", row.strategy.gpus},
          {"data_parallel", row.strategy.shares() ? Json(name_of(row.strategy.data)) : Json(nullptr)},
          {"usable_bytes", row.usable_bytes},
          {"limit_bytes", row.limit_bytes},
          {"refused", text_or_null(row.refused)},
          {"asked_device_bytes", row.asked_bytes > 0 ? Json(row.asked_bytes) : Json(nullptr)},
          {"fits", row.fits},
          {"largest", batch_json(row.largest)},
          {"fits_again", batch_json(row.again)},
          {"power_of_two", batch_json(row.power_of_two)},
          {"instance", instance_json(row, today)},
          {"step_seconds", or_null(row.step_seconds)},
          {"samples_per_second", or_null(samples_per_second(row, question))},
          {"scaling_efficiency", or_null(row.efficiency)},
          {"usd_per_million_samples", or_null(usd_per_million(row, question))},
          {"epoch_seconds", or_null(epoch)},
          {"usd_per_epoch", or_null(usd_for(row, epoch))},
          {"run_seconds", or_null(run)},
          {"usd_per_run", or_null(usd_for(row, run))},
          {"pareto", row.pareto}};
}

Json run_json(const RunConfig& run) {
  const bool trains = run.mode == Mode::train;
  return {{"mode", name_of(run.mode)},
          {"precision", precision_text(run)},
          {"amp", run.autocast ? Json(name_of(*run.autocast)) : Json(nullptr)},
          {"optimizer", trains ? Json(name_of(run.optimizer)) : Json(nullptr)},
          {"micro_batches", run.micro_batches},
          {"checkpoint", checkpoint_text(run.checkpoint)},
          {"pytorch", version_text(run.pytorch)}};
}

Json kinds_json(const FitQuestion& q) {
  if (q.kinds.empty()) return nullptr;
  Json names = Json::array();
  for (const DataParallel kind : q.kinds) names.push_back(name_of(kind));
  return names;
}

Json question_json(const FitQuestion& q) {
  return {{"batch", or_null(q.batch)},
          {"gpus", q.gpus.empty() ? Json(nullptr) : Json(q.gpus)},
          {"data_parallel", kinds_json(q)},
          {"network_gbps", or_null(q.network_gbps)},
          {"most_samples", q.most},
          {"margin", q.margin},
          {"most_usd_per_hour", or_null(q.most_usd)},
          {"spot", q.spot},
          {"providers", q.providers},
          {"region", text_or_null(q.region)},
          {"samples", or_null(q.samples)},
          {"epochs", q.epochs}};
}

Json chosen_json(const FitReport& report) {
  if (!report.fit.chosen) return nullptr;
  const FitRow& row = report.fit.rows[*report.fit.chosen];
  return {{"gpu", row.gpu.name},
          {"batch", batch_of(row, report.question)},
          {"arguments", arguments_of(row, report.question)},
          {"why", report.fit.why}};
}

}  // namespace

std::string fit_json(const FitReport& report, std::string_view version, Day today) {
  Json json = document_of("gpuplan.fit/1", version);
  json["model"] = {{"name", report.model}, {"file", report.file}};
  json["run"] = run_json(report.question.run);
  json["question"] = question_json(report.question);
  json["gpus"] = Json::array();
  for (const FitRow& row : report.fit.rows) json["gpus"].push_back(row_json(row, report.question, today));
  json["chosen"] = chosen_json(report);
  json["suggestions"] = Json::array();
  for (const Suggestion& way : report.suggestions)
    json["suggestions"].push_back({{"flags", way.flags}, {"device_bytes", way.device_bytes}, {"retries", way.retries}});
  json["warnings"] = report.warnings;
  return json_text(json);
}

std::string fit_json_schema() {
  constexpr std::string_view kKeys = R"(schema:=gpuplan.fit/1 tool:{name version:string}
    model:{name file:string}
    run:{mode precision:string amp optimizer:string? micro_batches:integer checkpoint pytorch:string}
    question:{batch:integer? gpus:integer[]? data_parallel:string[]? network_gbps:number? most_samples:integer
      margin:number most_usd_per_hour:number? spot:boolean providers:string[] region:string? samples:number?
      epochs:number}
    gpus:{gpu title:string gpus:integer data_parallel:string? usable_bytes limit_bytes:integer refused:string?
      asked_device_bytes:integer? fits:boolean largest fits_again power_of_two:{batch device_bytes:integer}?
      instance:{provider name:string gpu_count:number count idle_gpus:integer region:string? usd_per_hour:number
        price_date:string price_age_days:integer? source:string?}?
      step_seconds samples_per_second scaling_efficiency usd_per_million_samples epoch_seconds usd_per_epoch
      run_seconds usd_per_run:number? pareto:boolean}[]
    chosen:{gpu:string batch:integer arguments why:string}?
    suggestions:{flags:string device_bytes retries:integer}[] warnings:string[])";
  return schema::document("gpuplan fit --format json", kKeys);
}

}  // namespace gpuplan
