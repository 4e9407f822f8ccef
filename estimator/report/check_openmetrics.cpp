// gpuplan check as OpenMetrics text (prometheus.io/docs/specs/om/open_metrics_spec), which GitLab compares between
// branches.
#include <array>

#include "estimator/report/check_report.h"

namespace gpuplan {
namespace {

std::string escaped_label(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

std::string label(const char* name, const std::string& value) {
  return std::string(name) + "=\"" + escaped_label(value) + "\"";
}

struct MetricFamily {
  Figure figure;
  const char* name;
  const char* unit;  // the name ends in it; "" for none
  const char* help;
  int decimals = 0;  // of the unit that the figure is counted in
};
constexpr std::array<MetricFamily, 8> kFamilies = {
    {{Figure::peak, "gpuplan_peak_bytes", "bytes", "Allocated memory at the peak of a step."},
     {Figure::reserved, "gpuplan_reserved_bytes", "bytes", "Memory that PyTorch's allocator reserves."},
     {Figure::device, "gpuplan_device_bytes", "bytes", "Reserved memory and the CUDA context."},
     {Figure::saved, "gpuplan_saved_bytes", "bytes", "Memory that autograd keeps for backward."},
     {Figure::params, "gpuplan_parameters", "", "Parameters of the model."},
     {Figure::step_flop, "gpuplan_step_flops", "flops", "FLOPs of a step."},
     {Figure::step_time, "gpuplan_step_seconds", "seconds", "Time of a step on the check's GPU.", 9},
     {Figure::cost, "gpuplan_million_samples_usd", "usd", "Price of a million samples on the check's GPU.", 6}}};

// An integer with the point where its unit has it: 36200000 nanoseconds are 0.0362.
std::string decimal(std::int64_t amount, int decimals) {
  std::string digits = std::to_string(amount);
  if (decimals == 0) return digits;
  const auto places = static_cast<std::size_t>(decimals);
  if (digits.size() <= places) digits.insert(0, places + 1 - digits.size(), '0');
  digits.insert(digits.size() - places, 1, '.');
  while (digits.ends_with('0')) digits.pop_back();
  return digits.ends_with('.') ? digits + "0" : digits;
}

std::string head(const std::string& name, const std::string& unit, const std::string& help) {
  return "# TYPE " + name + " gauge\n" + (unit.empty() ? "" : "# UNIT " + name + " " + unit + "\n") + "# HELP " + name +
         " " + help + "\n";
}

}  // namespace

std::string check_openmetrics(const CheckReport& report) {
  std::string out;
  for (const MetricFamily& metric : kFamilies) {
    std::string lines;
    for (const CheckResult& result : report.results)
      if (const auto& value = result.measured.figures[metric.figure])
        lines += std::string(metric.name) + "{" + label("check", result.check.name) + "} " +
                 decimal(*value, metric.decimals) + "\n";
    if (!lines.empty()) out += head(metric.name, metric.unit, metric.help) + lines;
  }
  std::string limits;
  for (const CheckResult& result : report.results)
    for (const Threshold& t : result.check.limits)
      if (t.max && unit_of(t.figure) == Unit::bytes)
        limits += "gpuplan_limit_bytes{" + label("check", result.check.name) + "," +
                  label("figure", std::string(name_of(t.figure))) + "} " + std::to_string(t.max->amount) + "\n";
  if (!limits.empty()) out += head("gpuplan_limit_bytes", "bytes", "The budget.") + limits;
  out += head("gpuplan_broken", "", "1 where a check fails or cannot be planned.");
  for (const CheckResult& result : report.results)
    out += "gpuplan_broken{" + label("check", result.check.name) + "} " +
           (result.state == State::fail || result.state == State::error ? "1" : "0") + "\n";
  return out + "# EOF\n";
}

}  // namespace gpuplan
