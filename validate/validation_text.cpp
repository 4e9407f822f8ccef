#include <algorithm>
#include <cmath>

#include "estimator/base/format.h"
#include "estimator/report/text_table.h"
#include "validate/validation.h"
#include "validate/validation_words.h"

namespace gpuplan {
namespace {

using enum TextTable::Align;

std::string verdict_mark(bool good, const TextStyle& style) {
  return style.unicode ? (good ? "✔" : "✖") : (good ? "ok" : "NO");
}

std::string place_of(const WithinMemory& m) {
  std::string place = m.step == 0 ? "while the model is made"
                                  : "in step " + std::to_string(m.step) + ", " + std::string(name_of(m.phase));
  if (!m.layer.empty()) place += " of " + m.layer;
  if (!m.op.empty() && m.op != m.layer) place += " (" + m.op + ")";
  return place;
}

std::string ran_out_text(const Validation& v, const TextStyle& style) {
  const RanOut& out = *v.ran_out;
  const auto amounts = [&](const WithinMemory& m) {
    return bytes_text(m.tried_bytes, style) + " requested, " + bytes_text(m.allocated_bytes, style) + " allocated, " +
           bytes_text(m.reserved_bytes, style) + " reserved";
  };
  std::string text = "  " + verdict_mark(false, style) + " out of memory " + place_of(out.measured) + ": " +
                     amounts(out.measured) + "\n";
  text += "  predicted with the " + bytes_text(out.free_bytes, style) + " that were free: ";
  if (out.same)
    text += "the same\n";
  else if (out.predicted.runs)
    text += "the step runs\n";
  else
    text += place_of(out.predicted) + ", " + amounts(out.predicted) + "\n";
  text += "  the step needs " + bytes_text(v.plan.peak.reading.reserved_bytes, style) + " reserved\n";
  TextTable ways({left, right, left});
  for (const Suggestion& way : v.suggestions)
    ways.row({"  " + way.flags, bytes_text(way.device_bytes, style),
              way.retries > 0 ? "after the allocator releases its cache " + format_count(way.retries) + " times" : ""});
  return text + (v.suggestions.empty() ? "" : "  what would run instead\n" + ways.text());
}

std::string before_text(const Validation& v, const TextStyle& style) {
  const std::optional<std::int64_t> others = v.before.other_bytes();
  std::string text = "context " + bytes_text(v.before.context_bytes, style) + ", libraries " +
                     bytes_text(v.before.library_bytes, style);
  if (others && *others > 0) text += "; other processes " + bytes_text(*others, style);
  if (!others && v.before.device_bytes > 0) text += ", and the memory of other processes";
  if (v.plan.peak.context_confidence == Confidence::assumed) text += "; the prediction is an assumption (--runtime)";
  return text;
}

std::string row_note(const ValidationRow& r, double tolerance, const TextStyle& style) {
  if (!r.counts) return "not checked: includes that assumption";
  return verdict_mark(std::abs(r.error()) <= tolerance, style);
}

std::string memory_table(const Validation& v, double tolerance, const TextStyle& style) {
  TextTable table({left, right, right, right, left});
  table.row({"", "predicted", "measured", "error", ""});
  table.row({"before the run", bytes_text(v.plan.peak.context_bytes, style), bytes_text(v.before.bytes(), style), "",
             before_text(v, style)});
  for (const ValidationRow& r : v.rows)
    table.row({r.label, bytes_text(r.predicted_bytes, style), bytes_text(r.measured_bytes, style),
               percent_text(r.error()), row_note(r, tolerance, style)});
  table.row({"unaccounted", "", bytes_text(v.unaccounted_bytes, style), "",
             v.before.process_bytes ? "process - before the run - reserved" : "device - before the run - reserved"});
  table.row({"peak position", v.peak_predicted, v.peak_measured, "",
             verdict_mark(v.peak_predicted == v.peak_measured, style)});
  return table.text();
}

// -v: every phase of the settled step.
std::string phase_table(const Validation& v, const TextStyle& style) {
  TextTable table({left, right, right, right, right, right, right});
  table.row({"", "allocated", "measured", "reserved", "measured", "peak", "device"});
  for (const PhaseMemory& p : v.phases)
    table.row({std::string(name_of(p.phase)), bytes_text(p.predicted.live.allocated_bytes, style),
               bytes_text(p.measured.live.allocated_bytes, style), bytes_text(p.predicted.live.reserved_bytes, style),
               bytes_text(p.measured.live.reserved_bytes, style), bytes_text(p.measured.peak.allocated_bytes, style),
               bytes_text(p.process_bytes.value_or(p.device_bytes), style)});
  return "\n" + table.text();
}

std::string values_text(const Validation& v, const TextStyle& style) {
  std::string text;
  for (std::size_t i = 0; i < v.losses.size(); ++i)
    text += (i == 0 ? "  losses  " : "  ") + significant_text(v.losses[i], 6);
  if (!v.losses.empty()) text += "\n";
  if (v.values_equal)
    text += "  " + verdict_mark(*v.values_equal, style) + " losses, gradients and weights " +
            (*v.values_equal ? "are bit for bit equal to" : "differ from") + " those of a run that frees nothing\n";
  if (!v.values_not_compared.empty())
    text += "  " + verdict_mark(false, style) + " values were not compared: " + v.values_not_compared + "\n";
  return text;
}

// -q: the row that is asked for most.
std::string brief_text(const Validation& v, double tolerance, const TextStyle& style) {
  const auto peak = std::ranges::find(v.rows, "peak_allocated", &ValidationRow::name);
  if (peak == v.rows.end()) return "";
  return "  " + verdict_mark(v.holds(tolerance), style) + " peak allocated " +
         bytes_text(peak->predicted_bytes, style) + " predicted, " + bytes_text(peak->measured_bytes, style) +
         " measured, " + percent_text(peak->error()) + "\n";
}

}  // namespace

std::string validation_text(const Validation& v, double tolerance, const TextStyle& style, const TimesTable& table) {
  std::string out = v.device.name + (style.unicode ? " · " : " - ") + v.device.versions + "\n";
  if (v.ran_out) return out + ran_out_text(v, style);
  if (style.brief) return out + brief_text(v, tolerance, style);
  out += memory_table(v, tolerance, style);
  for (const std::string& remark : v.remarks) out += "  note: " + remark + "\n";
  if (style.verbose) out += phase_table(v, style) + "\n";
  if (!v.computes) return out + "  values and times need a real GPU: kernels do nothing on a simulated one\n";
  out += values_text(v, style);
  if (v.times) out += times_text(*v.times, v.plan.run.batch, style) + times_table(*v.times, table, style);
  return out;
}

}  // namespace gpuplan
