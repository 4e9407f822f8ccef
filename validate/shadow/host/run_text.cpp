// The screen of `gpuplan shadow`.
#include <algorithm>
#include <span>

#include "estimator/base/format.h"
#include "estimator/report/text_table.h"
#include "estimator/report/timeline.h"
#include "validate/shadow/host/run_report.h"
#include "validate/shadow/host/run_words.h"

namespace gpuplan::shadow {
namespace {

class RunScreen : public StyledScreen {
 public:
  RunScreen(const RunReport& report, const TextStyle& style) : StyledScreen(style), report_(report) {}

  std::string headline() const;
  std::string trouble() const;
  std::string verdict() const;
  std::string alive() const;
  std::string lines() const;
  std::string steps() const;
  std::string compiled() const;
  std::string engine() const;
  std::string ranks() const;
  std::string fits() const;
  std::string decided() const;
  std::string unknown() const;

 private:
  const RankReport& rank() const { return report_.ranks[report_.fullest]; }
  std::string mark(bool good) const { return mark_of(good, style_) + " "; }
  std::string paint(bool good, const std::string& text) const { return StyledScreen::paint(good ? "32" : "31", text); }
  std::string fit_words() const;
  std::string runtime_words() const;
  std::string wrapped(const std::string& label, const std::vector<std::string>& words) const;

  const RunReport& report_;
};

std::string RunScreen::headline() const {
  std::string out = command_words(report_.command, 60) + dot() + report_.gpu_title;
  if (report_.settings.devices > 1) out += (style_.unicode ? " × " : " x ") + format_count(report_.settings.devices);
  if (report_.settings.peers == Peers::imagined)
    out += dot() + "rank " + format_count(report_.settings.rank) + " of " + format_count(report_.settings.world);
  if (!report_.torch.empty()) out += dot() + "PyTorch " + report_.torch;
  return out + "\n";
}

std::string RunScreen::trouble() const {
  std::string out;
  if (report_.out_of_memory) out += "  " + paint(false, mark(false) + out_of_memory_words(report_, style_)) + "\n";
  if (report_.over_max_peak)
    out += "  " + paint(false, mark(false) + "over --max-peak " + bytes(*report_.max_peak_bytes)) + "\n";
  if (const std::string words = ending_words(report_); !words.empty()) out += "  " + words + "\n";
  for (const Problem& problem : report_.problems) out += "  " + problem.text + "\n";
  return out.empty() ? "" : "\n" + out;
}

std::string RunScreen::fit_words() const {
  const std::int64_t needs = rank().device_bytes;
  const std::string device = report_.gpu_title + " (" + format_count(report_.capacity_bytes >> 20) + " MiB)";
  if (report_.out_of_memory) return "of " + device + ", when it ran out of memory";
  if (needs > report_.capacity_bytes)
    return paint(false, mark(false) + "does not fit") + " " + device +
           " with the CUDA context: " + bytes(needs - report_.capacity_bytes) + " over";
  if (ended_early(report_)) return "of " + device + ", until it ended early";
  const std::int64_t share = needs / std::max<std::int64_t>(report_.capacity_bytes / 100, 1);
  return paint(true, mark(true) + "fits") + " " + device + ": " + format_count(share) + " %, " +
         bytes(report_.capacity_bytes - needs) + " free";
}

std::string RunScreen::runtime_words() const {
  const std::int64_t one = report_.settings.context_bytes;
  const std::int64_t processes = one > 0 ? rank().context_bytes / one : 0;
  return "CUDA context and libraries" + (processes > 1 ? " of " + counted(processes, "process", "processes") : "") +
         ", assumed (--runtime)";
}

std::string RunScreen::verdict() const {
  const RankReport& r = rank();
  const std::int64_t others = r.device_bytes - r.context_bytes - r.peak.reserved;
  TextTable table({kLeft, kRight, kLeft});
  if (r.torch) {
    std::string words = r.alive.when.empty() ? "" : "at " + r.alive.when;
    if (r.peak.requested > 0)  // cudaMallocAsync's statistics lack it
      words += (words.empty() ? "" : ", ") + bytes(r.peak.requested) + " requested";
    table.row({"Peak", bytes(r.peak.allocated), words});
    table.row({"+ cache", bytes(r.peak.reserved - r.peak.allocated - r.graph_bytes),
               "held by PyTorch's allocator, " + bytes(r.peak.reserved) + " reserved" + dot() +
                   counted(r.segments, "segment") + dot() + counted(r.retries, "retry", "retries")});
    if (r.graph_bytes > 0)
      table.row({"+ graphs", bytes(r.graph_bytes), "held by the pools of CUDA graphs, for nothing else to use"});
    if (others > 0) {
      const bool alone = report_.ranks.size() < 2;
      table.row(
          {"+ others", bytes(others),
           std::string("device memory ") + (alone ? "" : "of other processes, or ") + "outside PyTorch's allocator"});
    }
    if (others < 0) table.row({"- freed", bytes(-others), "released before the device's memory peaked"});
  } else {
    table.row({"Peak", bytes(others),
               "of device memory" + dot() + counted(r.allocations, "allocation") + dot() +
                   counted(r.kernels, "kernel launch", "kernel launches")});
  }
  table.row({"+ runtime", bytes(r.context_bytes), runtime_words()});
  table.row({"Needs", bytes(r.device_bytes), fit_words()});
  return "\n" + table.text();
}

std::string RunScreen::alive() const {
  const auto& categories = rank().alive.categories;
  std::vector<std::int64_t> values;
  std::int64_t total = 0;
  for (const auto& [name, n] : categories) {
    values.push_back(n);
    total += n;
  }
  if (total == 0) return "";
  const ColumnUnit unit = column_unit(total, style_.units);
  const std::vector<std::int64_t> tenths = tenths_that_sum(values, unit.bytes), shares = shares_per_mille(values);
  const std::size_t columns = style_.width > 60 ? static_cast<std::size_t>(std::min(style_.width, 100)) - 50 : 0;
  TextTable table({kLeft, kRight, kRight, kLeft});
  table.row({"alive at the peak", style_.exact_bytes ? "bytes" : std::string(unit.name), "%"});
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    sum += tenths[i];
    if (values[i] == 0) continue;
    std::vector<std::string> row = {category_words(categories[i].first),
                                    style_.exact_bytes ? format_count(values[i]) : format_tenths(tenths[i]),
                                    format_tenths(shares[i])};
    if (style_.interactive) row.push_back(bar(shares[i], columns));
    table.row(row);
  }
  table.row({"total", style_.exact_bytes ? format_count(total) : format_tenths(sum), "100.0"});
  return "\n" + table.text();
}

std::string RunScreen::lines() const {
  constexpr std::size_t kRows = 10;
  const std::vector<AliveLine>& all = rank().alive.lines;
  if (all.empty()) return "";
  const ColumnUnit unit = column_unit(all[0].bytes, style_.units);
  const std::size_t shown = style_.verbose ? all.size() : std::min(all.size(), kRows);
  TextTable table({kLeft, kRight, kRight, kLeft});
  table.row({"by line of Python", style_.exact_bytes ? "bytes" : std::string(unit.name), "blocks"});
  std::int64_t rest = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const AliveLine& line = all[i];
    if (i >= shown) {
      rest += line.bytes;
      continue;
    }
    table.row({line_words(line),
               style_.exact_bytes ? format_count(line.bytes) : format_tenths(in_tenths(line.bytes, unit.bytes)),
               format_count(line.blocks), shortened(line.code, 48)});
  }
  if (rest > 0)
    table.row({counted(static_cast<std::int64_t>(all.size() - shown), "more line"),
               style_.exact_bytes ? format_count(rest) : format_tenths(in_tenths(rest, unit.bytes))});
  return "\n" + table.text();
}

std::string RunScreen::steps() const {
  const std::vector<StepRecord>& steps = rank().steps;
  if (steps.empty()) return "";
  std::vector<TimelinePoint> points;
  std::vector<std::int64_t> kernels;
  for (const StepRecord& step : steps) {
    points.push_back({.phase = Phase::optimizer, .peak_bytes = step.peak.allocated});
    kernels.push_back(step.kernels);
  }
  const auto middle = kernels.begin() + static_cast<std::ptrdiff_t>((kernels.size() - 1) / 2);
  std::ranges::nth_element(kernels, middle);
  const auto columns = static_cast<std::size_t>(std::clamp(style_.width, 24, 100)) - 4;
  std::string out = "\n  " + sparkline(points, std::min(columns, points.size()), style_.unicode) + "\n  ";
  out += counted(static_cast<std::int64_t>(steps.size()), "optimizer step");
  out += dot() + "peak " + bytes(steps.front().peak.allocated) + " in the first, " +
         bytes(steps.back().peak.allocated) + " in the last";
  if (*middle > 0) out += dot() + format_count(*middle) + " kernel launches per step";
  return out + "\n";
}

std::string RunScreen::compiled() const {
  const Compiled& compiled = report_.compiled;
  if (compiled.graphs == 0) return "";
  constexpr std::size_t kRows = 5;
  std::int64_t breaks = 0;
  for (const GraphBreak& place : compiled.breaks) breaks += place.times;
  std::string out = "\n  compiled  " + counted(compiled.graphs, "graph") + ", " + counted(breaks, "break") + "\n";
  const std::size_t shown = style_.verbose ? compiled.breaks.size() : std::min(compiled.breaks.size(), kRows);
  for (const GraphBreak& place : std::span(compiled.breaks).first(shown))
    out += "    " + break_words(place, static_cast<std::size_t>(std::clamp(style_.width, 60, 200)) - 4) + "\n";
  if (shown < compiled.breaks.size())
    out += "    " + counted(static_cast<std::int64_t>(compiled.breaks.size() - shown), "more place") + " (--verbose)\n";
  return out;
}

std::string RunScreen::engine() const {
  const Engine& engine = report_.engine;
  if (engine.name.empty()) return "";
  TextTable table({kLeft, kRight});
  table.row({engine.name + " measured", ""});
  for (const auto& [name, size] : engine.parts) table.row({name, bytes(size)});
  std::string out = "\n" + table.text();
  for (const std::string& line : engine.lines) out += "  " + line + "\n";
  return out;
}

std::string RunScreen::ranks() const {
  if (report_.ranks.size() < 2) return "";
  TextTable table({kRight, kRight, kRight, kRight, kRight, kRight, kRight, kRight});
  table.row({"rank", "device", "allocated", "requested", "reserved", "device total", "steps", "kernels"});
  for (const RankReport& r : report_.ranks)
    table.row({rank_words(r), format_count(r.device), bytes(r.peak.allocated), bytes(r.peak.requested),
               bytes(r.peak.reserved), bytes(r.device_bytes), format_count(static_cast<std::int64_t>(r.steps.size())),
               format_count(r.kernels)});
  return "\n" + table.text() + "  The figures above are those of rank " + rank_words(rank()) +
         ", which needs the most memory.\n";
}

// Words after a label, broken at the screen's width.
std::string RunScreen::wrapped(const std::string& label, const std::vector<std::string>& words) const {
  const auto width = static_cast<std::size_t>(std::clamp(style_.width, 40, 100));
  std::string out, line = "  " + label + std::string(label.size() < 10 ? 10 - label.size() : 1, ' ');
  const std::size_t indent = line.size();
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i] + (i + 1 < words.size() ? "," : "");
    if (line.size() > indent && line.size() + 1 + word.size() > width) {
      out += line + "\n";
      line = std::string(indent, ' ');
    }
    line += (line.size() > indent ? " " : "") + word;
  }
  return out + line + "\n";
}

std::string RunScreen::fits() const {
  const std::vector<std::string> good = fit_names(report_, true), bad = fit_names(report_, false);
  if (good.empty() && bad.empty()) return "";
  std::string out = "\n";
  if (!good.empty()) out += wrapped("fits", good);
  if (!bad.empty()) out += wrapped("not on", bad);
  return out;
}

std::string RunScreen::decided() const {
  constexpr std::size_t kRows = 5;
  const std::vector<Decision>& all = report_.decided;
  if (all.empty()) return "";
  std::string out = "\n  decided without values\n";
  const std::size_t shown = style_.verbose ? all.size() : std::min(all.size(), kRows);
  for (const Decision& read : std::span(all).first(shown)) out += "    " + decision_words(read) + "\n";
  if (shown < all.size())
    out += "    " + counted(static_cast<std::int64_t>(all.size() - shown), "more line") + " (--verbose)\n";
  return out;
}

std::string RunScreen::unknown() const {
  const std::vector<std::string> unknown = unknown_words(report_);
  if (unknown.empty()) return "";
  std::string out = "\n  unknown\n";
  for (const std::string& what : unknown) out += "    " + what + "\n";
  return out;
}

}  // namespace

std::string run_text(const RunReport& report, const TextStyle& style) {
  const RunScreen screen(report, style);
  if (report.ranks.empty()) {
    if (!report.problems.empty() || !ending_words(report).empty()) return screen.headline() + screen.trouble();
    return screen.headline() + "\n  " + nothing_used_words(report) + "\n" + screen.trouble() + screen.unknown();
  }
  if (style.brief) return screen.verdict().substr(1) + screen.trouble();
  return screen.headline() + screen.trouble() + screen.verdict() + screen.alive() + screen.lines() + screen.steps() +
         screen.compiled() + screen.engine() + screen.ranks() + screen.fits() + screen.decided() + screen.unknown();
}

}  // namespace gpuplan::shadow
