#include <cmath>
#include <cstdio>

#include "estimator/base/format.h"
#include "estimator/report/serve_load.h"
#include "estimator/report/text_style.h"
#include "estimator/report/text_table.h"
#include "estimator/report/time_text.h"

namespace gpuplan {
namespace {

std::string money(double usd) {
  char text[32];
  std::snprintf(text, sizeof text, usd < 0.995 ? "$%.3f" : "$%.2f", usd);
  return text;
}

std::vector<std::string> spread_row(const char* name, const Quantiles& s) {
  return {name, format_seconds(s.p50), format_seconds(s.p90), format_seconds(s.p99)};
}

std::string limit_words(const ServedLoad& load) {
  return load.limit == "arrivals" ? "nobody waits for a place" : "requests wait for " + load.limit;
}

// With the least load that was tried.
std::string nearest_words(const LoadAnswer& load) {
  if (load.curve.empty()) return "";
  const ServedLoad& least = load.curve.front().load;
  return ": with little load the first token takes " + format_seconds(at_share(least.first_token, load.slo->share)) +
         " and each further one " + format_seconds(at_share(least.token, load.slo->share)) + " (p" +
         format_count(std::lround(100 * load.slo->share)) + ")";
}

std::string slo_line(const LoadAnswer& load, const TextStyle& style) {
  if (!load.slo) return "";
  const std::string mark = mark_of(load.highest.has_value(), style);
  if (!load.highest) return "\n  " + mark + " " + load.slo_words + " is met at no rate" + nearest_words(load) + "\n";
  return "\n  " + mark + " " + load.slo_words + " is met up to " + format_figure(load.highest->rate) +
         " requests/s: " + format_figure(load.highest->load.output_rate) + " tokens/s out\n";
}

std::string token_seconds(const LoadPoint& p) { return p.load.token.p90 > 0 ? format_seconds(p.load.token.p90) : "-"; }

std::string curve_table(const LoadAnswer& load) {
  TextTable table({kRight, kRight, kRight, kRight, kRight});
  table.row({"requests/s", "first p90", "token p90", "tokens/s", "running"});
  for (const LoadPoint& p : load.curve)
    table.row({format_figure(p.rate), format_seconds(p.load.first_token.p90), token_seconds(p),
               format_figure(p.load.output_rate), format_figure(p.load.mean_running)});
  return "\n" + table.text();
}

}  // namespace

std::optional<double> LoadAnswer::usd_per_million() const {
  if (!offer || point.load.output_rate <= 0) return std::nullopt;
  return offer->usd / 3600 / point.load.output_rate * 1e6;
}

std::string load_text(const LoadAnswer& load, const TextStyle& style) {
  const ServedLoad& l = load.point.load;
  std::string out = "\n  " + format_figure(load.point.rate) + " requests/s, " + load.words + " (modelled)\n";
  TextTable table({kLeft, kRight, kRight, kRight});
  table.row({"", "p50", "p90", "p99"});
  table.row(spread_row("first token", l.first_token));
  if (l.token.p99 > 0) table.row(spread_row("each token", l.token));  // answers of one token have none
  out += table.text();
  out += "  " + format_figure(l.output_rate) + " tokens/s out, " + format_figure(l.mean_running) +
         " sequences at a time (" + format_count(l.most_running) + " at most), " + limit_words(l) + "\n";
  if (l.preemptions > 0)
    out += "  " + format_count(l.preemptions) + " times a sequence was computed again for want of cache\n";
  if (const std::optional<double> usd = load.usd_per_million())
    out += "  " + money(*usd) + " for a million tokens out: " + load.offer->name + " at " + money(load.offer->usd) +
           "/h (" + load.offer->dated + ")\n";
  out += slo_line(load, style);
  return style.brief || load.curve.empty() ? out : out + curve_table(load);
}

}  // namespace gpuplan
