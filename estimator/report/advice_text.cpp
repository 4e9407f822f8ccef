#include "estimator/report/advice_text.h"

#include <array>
#include <cmath>

#include "estimator/report/text_table.h"
#include "estimator/report/time_text.h"
#include "estimator/report/writers.h"

namespace gpuplan {
namespace {

// "1.24x": of samples a second, two decimals.
std::string gain_of(const Advice& advice) {
  const std::int64_t hundredths = std::llround(100 * advice.gain);
  const std::string fraction = std::to_string(hundredths % 100);
  return std::to_string(hundredths / 100) + "." + std::string(2 - fraction.size(), '0') + fraction + "x";
}

TextTable table_of(const Report& report, const TextStyle& style) {
  TextTable table({kLeft, kRight, kRight, kRight, kLeft});
  const bool decodes = report.run.generation.part == Generation::Part::decode;
  table.row({"change", "a step", decodes ? "tokens/s" : "samples/s", "needs", "why"});
  for (const Advice& a : *report.advice)
    table.row({a.change, format_seconds(a.step_seconds), gain_of(a), styled_bytes(a.device_bytes, style),
               a.reason + (a.fits ? "" : "; does not fit")});
  return table;
}

}  // namespace

std::string_view name_of(Advice::Kind kind) {
  constexpr std::array<std::string_view, 4> kNames = {"precision", "layout", "shape", "batch"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string advice_text(const Report& report, const TextStyle& style) {
  if (report.advice->empty()) return "  no change of precision, layout, sizes or batch was found to be faster\n";
  const std::string now = report.time ? ", now " + format_seconds(report.time->seconds()) + " per step" : "";
  return "  each of these changes alone is faster" + now + "\n" + table_of(report, style).text("    ");
}

std::string advice_md(const Report& report) {
  if (report.advice->empty()) return "";
  return "\n" + table_of(report, {}).markdown();
}

}  // namespace gpuplan
