#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "estimator/report/format.h"
#include "estimator/report/text_table.h"
#include "estimator/report/writers.h"
#include "validate/validation.h"

namespace gpuplan {
namespace {

using enum TextTable::Align;

std::string bytes(std::int64_t n, const TextStyle& style) {
  return n < 0 ? "-" + format_bytes(-n, style.units) : format_bytes(n, style.units);
}

// The same in every locale.
std::string decimal(double value, std::chars_format form, int digits) {
  std::array<char, 64> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value, form, digits);
  return error == std::errc{} ? std::string(text.data(), end) : "?";
}
std::string milliseconds(double value) { return decimal(value, std::chars_format::fixed, 2); }

// 0 is told from what rounds to it.
std::string percent(double share) {
  if (share == 0) return "0 %";
  const std::string sign = share < 0 ? "-" : "+";
  if (std::abs(share) < 0.0005) return sign + "<0.1 %";
  return sign + decimal(std::abs(share) * 100, std::chars_format::fixed, 1) + " %";
}

std::string verdict_mark(bool good, const TextStyle& style) {
  return style.unicode ? (good ? "✔" : "✖") : (good ? "ok" : "NO");
}

std::string ran_out_text(const RanOut& out, const TextStyle& style) {
  const WithinMemory& m = out.measured;
  std::string place = m.step == 0 ? "while the model is made"
                                  : "in step " + std::to_string(m.step) + ", " + std::string(name_of(m.phase));
  if (const std::string& of = m.layer.empty() ? m.op : m.layer; !of.empty()) place += " of " + of;
  return "  " + verdict_mark(out.predicted, style) + " memory ran out " + place + ": " + bytes(m.tried_bytes, style) +
         " wanted, " + bytes(m.allocated_bytes, style) + " allocated; the plan says " +
         (out.predicted ? "the same" : "something else") + "\n";
}

std::string times_text(std::vector<double> times) {
  if (times.empty()) return "";
  std::ranges::sort(times);
  return "  " + std::to_string(times.size()) + " steps  min " + milliseconds(times.front()) + "  median " +
         milliseconds(times[times.size() / 2]) + "  max " + milliseconds(times.back()) + " ms\n";
}

std::string memory_table(const Validation& v, double tolerance, const TextStyle& style) {
  TextTable table({left, right, right, right, left});
  table.row({"", "predicted", "measured", "error", ""});
  for (const ValidationRow& r : v.rows)
    table.row({r.label, bytes(r.predicted_bytes, style), bytes(r.measured_bytes, style), percent(r.error()),
               verdict_mark(std::abs(r.error()) <= tolerance, style)});
  table.row({"before the run", bytes(v.plan.peak.context_bytes, style), bytes(v.before_bytes, style), "",
             "context and libraries, and whatever else the device has"});
  table.row({"unaccounted", "", bytes(v.unaccounted_bytes, style), "", "of the device, in neither"});
  table.row({"peak position", v.peak_predicted, v.peak_measured, "",
             verdict_mark(v.peak_predicted == v.peak_measured, style)});
  return table.text();
}

}  // namespace

std::string validation_text(const Validation& v, double tolerance, const TextStyle& style) {
  std::string out = v.device.name + (style.unicode ? " · " : " - ") + v.device.versions + "\n";
  if (v.ran_out) return out + ran_out_text(*v.ran_out, style);
  out += memory_table(v, tolerance, style);
  if (!v.computes) return out + "  values and times need a GPU: kernels did nothing here\n";
  for (std::size_t i = 0; i < v.losses.size(); ++i)
    out += (i == 0 ? "  losses  " : "  ") + decimal(v.losses[i], std::chars_format::general, 6);
  if (!v.losses.empty()) out += "\n";
  out += times_text(v.step_milliseconds);
  if (v.values_equal)
    out += "  " + verdict_mark(*v.values_equal, style) + " losses, gradients and weights are " +
           (*v.values_equal ? "bit for bit" : "not") + " those of a run that releases nothing\n";
  return out;
}

}  // namespace gpuplan
