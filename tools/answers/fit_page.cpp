#include "tools/answers/fit_page.h"

#include <algorithm>

#include "estimator/report/curves.h"
#include "estimator/report/time_text.h"
#include "tools/answers/report_page.h"
#include "tools/options/instance_input.h"
#include "tools/process/version.h"

namespace gpuplan {
namespace {

// What a million samples cost, and how fast they are.
std::string cost_and_speed(const FitReport& report) {
  CurveFrame frame{.title = "Cost of a million samples over speed, modelled",
                   .x_name = "samples a second",
                   .bytes = false,
                   .x_log = true,
                   .names_points = true,
                   .x_words = {},
                   .y_text = {},
                   .curves = {},
                   .limits = {}};
  frame.y_text = [](double usd) { return format_figure(usd) + " USD"; };
  Curve rows;
  for (const FitRow& row : report.fit.rows) {
    const std::optional<double> speed = samples_per_second(row, report.question),
                                usd = usd_per_million(row, report.question);
    const std::string several = row.strategy.gpus > 1 ? std::to_string(row.strategy.gpus) + " " : "";
    if (row.fits && speed && usd)
      rows.points.insert(row.pareto ? rows.points.begin() : rows.points.end(), {*speed, *usd, several + row.gpu.name});
  }
  frame.curves.push_back(std::move(rows));
  return curves_svg(frame.title, {frame});
}

}  // namespace

std::string fit_page(const FitReport& report, const OutputOptions& output) {
  std::string verdict = mark_of(false, {}) + (std::ranges::any_of(report.fit.rows, &FitRow::fits)
                                                  ? " nothing is chosen: " + report.not_rented
                                                  : " fits none of these GPUs");
  if (report.fit.chosen) {
    const FitRow& row = report.fit.rows[*report.fit.chosen];
    verdict = mark_of(true, {}) + " " + row.gpu.title + ": " + arguments_of(row, report.question) +
              (row.instance ? ", " + row.instance->provider + " " + row.instance->name : "");
  }
  return report_page({.text = fit_text(report, file_style(output), today()),
                      .json = fit_json(report, kVersion, today()),
                      .verdict = std::move(verdict),
                      .good = report.fit.chosen.has_value(),
                      .notes = report.warnings,
                      .drawings = {{"What a million samples cost", cost_and_speed(report)}},
                      .memories = {}},
                     output);
}

}  // namespace gpuplan
