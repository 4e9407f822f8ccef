#include "tools/answers/serve_page.h"

#include "estimator/report/curves.h"
#include "estimator/report/time_text.h"
#include "tools/answers/report_page.h"
#include "tools/process/version.h"

namespace gpuplan {
namespace {

Curve curve_of(const char* name, const LoadAnswer& load, double (*figure)(const ServedLoad&),
               std::string (*words)(double)) {
  Curve curve{.name = name, .points = {}};
  for (const LoadPoint& p : load.curve) {
    const double y = figure(p.load);
    curve.points.push_back({p.rate, y, format_figure(p.rate) + " requests/s: " + words(y)});
  }
  return curve;
}

CurveFrame frame_of(const char* title, std::string (*words)(double), std::vector<Curve> curves,
                    const std::optional<double>& limit, const char* limit_name) {
  CurveFrame frame;
  frame.title = title;
  frame.x_name = "requests/s";
  frame.y_text = words;
  frame.curves = std::move(curves);
  if (limit) frame.limits.push_back({limit_name, *limit});
  return frame;
}

std::string drawing(const LoadAnswer& load) {
  const std::optional<double> first = load.slo ? load.slo->first_token : std::nullopt;
  const std::optional<double> token = load.slo ? load.slo->token : std::nullopt;
  const auto at = [&](const char* name, double (*figure)(const ServedLoad&)) {
    return curve_of(name, load, figure, format_seconds);
  };
  return curves_svg("Over the load",
                    {frame_of("Time to the first token", format_seconds,
                              {at("p50", [](const ServedLoad& l) { return l.first_token.p50; }),
                               at("p90", [](const ServedLoad& l) { return l.first_token.p90; }),
                               at("p99", [](const ServedLoad& l) { return l.first_token.p99; })},
                              first, "ttft"),
                     frame_of("Time of each further token", format_seconds,
                              {at("p50", [](const ServedLoad& l) { return l.token.p50; }),
                               at("p90", [](const ServedLoad& l) { return l.token.p90; }),
                               at("p99", [](const ServedLoad& l) { return l.token.p99; })},
                              token, "tpot"),
                     frame_of("Generated tokens a second", format_figure,
                              {curve_of(
                                  "tokens/s", load, [](const ServedLoad& l) { return l.output_rate; }, format_figure)},
                              std::nullopt, "")});
}

}  // namespace

std::string serve_page(const ServeReport& report, const OutputOptions& output) {
  TextStyle brief;
  brief.brief = true;
  ReportParts parts{.text = serve_text(report, file_style(output)),
                    .json = serve_json(report, kVersion),
                    .verdict = serve_text(report, brief),
                    .good = report.start.starts,
                    .notes = report.warnings,
                    .drawings = {},
                    .memories = {}};
  if (report.load && !report.load->curve.empty()) parts.drawings.emplace_back("Over the load", drawing(*report.load));
  return report_page(std::move(parts), output);
}

}  // namespace gpuplan
