#include "estimator/plan/run_names.h"
#include "estimator/report/fit_table.h"
#include "estimator/report/schema_parts.h"

namespace gpuplan {
namespace {

using schema::Json, schema::list_of, schema::nullable, schema::object, schema::or_null, schema::text_or_null,
    schema::type;

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
  const auto number = [](const std::optional<double>& n) { return n ? Json(*n) : Json(nullptr); };
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
          {"step_seconds", number(row.step_seconds)},
          {"samples_per_second", number(samples_per_second(row, question))},
          {"scaling_efficiency", number(row.efficiency)},
          {"usd_per_million_samples", number(usd_per_million(row, question))},
          {"epoch_seconds", number(epoch)},
          {"usd_per_epoch", number(usd_for(row, epoch))},
          {"run_seconds", number(run)},
          {"usd_per_run", number(usd_for(row, run))},
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
  return {{"batch", q.batch ? Json(*q.batch) : Json(nullptr)},
          {"gpus", q.gpus.empty() ? Json(nullptr) : Json(q.gpus)},
          {"data_parallel", kinds_json(q)},
          {"network_gbps", q.network_gbps ? Json(*q.network_gbps) : Json(nullptr)},
          {"most_samples", q.most},
          {"margin", q.margin},
          {"most_usd_per_hour", q.most_usd ? Json(*q.most_usd) : Json(nullptr)},
          {"spot", q.spot},
          {"providers", q.providers},
          {"region", text_or_null(q.region)},
          {"samples", q.samples ? Json(*q.samples) : Json(nullptr)},
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

Json row_schema() {
  const Json batch = or_null(object({{"batch", type("integer")}, {"device_bytes", type("integer")}}));
  const Json instance = or_null(object({{"provider", type("string")},
                                        {"name", type("string")},
                                        {"gpu_count", type("number")},
                                        {"count", type("integer")},
                                        {"idle_gpus", type("integer")},
                                        {"region", nullable("string")},
                                        {"usd_per_hour", type("number")},
                                        {"price_date", type("string")},
                                        {"price_age_days", nullable("integer")},
                                        {"source", nullable("string")}}));
  return object({{"gpu", type("string")},
                 {"title", type("string")},
                 {"gpus", type("integer")},
                 {"data_parallel", nullable("string")},
                 {"usable_bytes", type("integer")},
                 {"limit_bytes", type("integer")},
                 {"refused", nullable("string")},
                 {"asked_device_bytes", nullable("integer")},
                 {"fits", type("boolean")},
                 {"largest", batch},
                 {"fits_again", batch},
                 {"power_of_two", batch},
                 {"instance", instance},
                 {"step_seconds", nullable("number")},
                 {"samples_per_second", nullable("number")},
                 {"scaling_efficiency", nullable("number")},
                 {"usd_per_million_samples", nullable("number")},
                 {"epoch_seconds", nullable("number")},
                 {"usd_per_epoch", nullable("number")},
                 {"run_seconds", nullable("number")},
                 {"usd_per_run", nullable("number")},
                 {"pareto", type("boolean")}});
}

}  // namespace

std::string fit_json(const FitReport& report, std::string_view version, Day today) {
  Json json = {{"schema", "gpuplan.fit/1"},
               {"tool", {{"name", "gpuplan"}, {"version", version}}},
               {"model", {{"name", report.model}, {"file", report.file}}},
               {"run", run_json(report.question.run)},
               {"question", question_json(report.question)},
               {"gpus", Json::array()},
               {"chosen", chosen_json(report)},
               {"suggestions", Json::array()},
               {"warnings", report.warnings}};
  for (const FitRow& row : report.fit.rows) json["gpus"].push_back(row_json(row, report.question, today));
  for (const Suggestion& way : report.suggestions)
    json["suggestions"].push_back({{"flags", way.flags}, {"device_bytes", way.device_bytes}, {"retries", way.retries}});
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string fit_json_schema() {
  const Json question = object({{"batch", nullable("integer")},
                                {"gpus", or_null(list_of(type("integer")))},
                                {"data_parallel", or_null(list_of(type("string")))},
                                {"network_gbps", nullable("number")},
                                {"most_samples", type("integer")},
                                {"margin", type("number")},
                                {"most_usd_per_hour", nullable("number")},
                                {"spot", type("boolean")},
                                {"providers", list_of(type("string"))},
                                {"region", nullable("string")},
                                {"samples", nullable("number")},
                                {"epochs", type("number")}});
  const Json run = object({{"mode", type("string")},
                           {"precision", type("string")},
                           {"amp", nullable("string")},
                           {"optimizer", nullable("string")},
                           {"micro_batches", type("integer")},
                           {"checkpoint", type("string")},
                           {"pytorch", type("string")}});
  const Json chosen = or_null(object(
      {{"gpu", type("string")}, {"batch", type("integer")}, {"arguments", type("string")}, {"why", type("string")}}));
  const Json way = object({{"flags", type("string")}, {"device_bytes", type("integer")}, {"retries", type("integer")}});
  return schema::document("gpuplan fit --format json",
                          {{"schema", {{"const", "gpuplan.fit/1"}}},
                           {"tool", object({{"name", type("string")}, {"version", type("string")}})},
                           {"model", object({{"name", type("string")}, {"file", type("string")}})},
                           {"run", run},
                           {"question", question},
                           {"gpus", list_of(row_schema())},
                           {"chosen", chosen},
                           {"suggestions", list_of(way)},
                           {"warnings", list_of(type("string"))}});
}

}  // namespace gpuplan
