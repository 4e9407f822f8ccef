#include <cmath>
#include <cstdio>

#include "estimator/base/format.h"
#include "estimator/report/serve_report.h"
#include "estimator/report/text_table.h"

namespace gpuplan {
namespace {

std::string decimals(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

class ServeScreen : StyledScreen {
 public:
  ServeScreen(const ServeReport& report, const TextStyle& style) : StyledScreen(style), report_(report) {}

  std::string text() const {
    const std::string verdict = verdict_text();
    const std::string load = report_.load ? load_text(*report_.load, style_) : "";
    if (style_.brief) return verdict + load;
    return title() + "\n" + memory() + "\n" + verdict + hints() + load;
  }

 private:
  const EngineStart& start() const { return report_.start; }

  std::string title() const {
    const std::int64_t ranks = report_.settings.tensor_ranks;
    return paint("1", report_.model) + dot() + start().engine + dot() + report_.precision + dot() +
           (ranks > 1 ? std::to_string(ranks) + " x " : "") + report_.gpu_title + dot() +
           format_count(start().limits.length) + " tokens\n";
  }

  std::string budget_note() const {
    const double percent = start().utilization * 100;
    return decimals(start().utilization, std::abs(percent - std::round(percent)) < 1e-6 ? 2 : 3) + " of " +
           bytes(start().shared_bytes) + (start().shared_note.empty() ? "" : " ") + start().shared_note +
           " (--utilization)";
  }

  std::string cache_note() const {
    if (!start().starts) return "";
    if (start().limits.block_tokens == 1)
      return format_count(start().blocks) + " tokens, " + bytes(start().block_bytes) + " each";
    return format_count(start().blocks) + " blocks of " + std::to_string(start().limits.block_tokens) + " tokens, " +
           bytes(start().block_bytes) + " each";
  }

  std::string memory() const {
    TextTable table({kLeft, kRight, kLeft});
    table.row({"Budget", bytes(start().requested_bytes), budget_note()});
    for (const MemoryPart& part : start().parts) table.row({"- " + part.name, bytes(part.bytes), part.note});
    if (start().consumed_bytes == 0) return table.text();  // it did not come so far
    table.row({"KV cache", bytes(start().cache_bytes), cache_note()});
    for (const MemoryPart& part : start().outside) table.row({part.name, bytes(part.bytes), part.note});
    return table.text();
  }

  std::string verdict_text() const {
    const std::string mark = mark_of(start().starts, style_);
    if (!start().starts)
      return "  " + paint("31", mark + " does not start") + "\n\n" +
             wrapped(start().error, "  ", static_cast<std::size_t>(style_.width));
    return "  " + paint("32", mark + " starts") + ": " + format_count(start().limits.cache_tokens) +
           " tokens of cache, " + decimals(start().sequences_at_length, 2) + " sequences of " +
           format_count(start().limits.length) + " tokens\n";
  }

  std::string hints() const {
    if (start().hints.empty()) return "";
    TextTable table({kLeft, kLeft});
    for (const StartHint& hint : start().hints) table.row({hint.flag, hint.result});
    return "\n  With any one of these it starts:\n" + table.text("    ");
  }

  const ServeReport& report_;
};

}  // namespace

std::string serve_text(const ServeReport& report, const TextStyle& style) { return ServeScreen(report, style).text(); }

}  // namespace gpuplan
