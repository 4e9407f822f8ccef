#include <algorithm>

#include "estimator/base/csv.h"
#include "estimator/base/excerpt.h"
#include "estimator/report/snapshot_report_writers.h"
#include "estimator/report/text_table.h"

namespace gpuplan {
namespace {

using enum TextTable::Align;

class SnapshotScreen : public StyledScreen {
 public:
  SnapshotScreen(const SnapshotReport& report, const TextStyle& style, std::size_t rows)
      : StyledScreen(style), r_(report), h_(report.history), rows_(rows) {}

  std::string verdict() const {
    TextTable table({left, right, left});
    table.row({"Peak", bytes(h_.peak.allocated_bytes), peak_words()});
    table.row({"+ cache", bytes(h_.reserved_at_peak - h_.peak.allocated_bytes),
               "held by PyTorch's allocator then, " + bytes(h_.reserved_at_peak) + " reserved"});
    table.row({"Reserved", bytes(h_.peak.reserved_bytes),
               "at most" + dot() + bytes(h_.end.reserved_bytes) + " at the end, in " + count(r_.segments, "segment")});
    table.row({"At the end", bytes(h_.end.allocated_bytes),
               "allocated" + dot() + bytes(h_.end.reserved_bytes - h_.end.allocated_bytes) +
                   " reserved but free, the largest block " + bytes(r_.largest_free_bytes) + dot() +
                   bytes(r_.inactive_bytes) + " in pieces of segments"});
    return "\n" + table.text();
  }

  std::string failures() const {
    std::string out;
    for (std::size_t i = 0; i < std::min(rows_, r_.failures.size()); ++i) {
      const SnapshotFailure& f = r_.failures[i];
      const SnapshotOutOfMemory& o = f.reading;
      const std::int64_t cached = o.at.reserved_bytes - o.at.allocated_bytes;
      out += "\n  " + paint("31", mark_of(false, style_) + " out of memory") + " in event " +
             format_count(o.event + 1) + ": " + bytes(o.asked_bytes) + " asked for at " + f.text + "\n";
      out += "    " + bytes(o.free_bytes) + " free on the device" + dot() + bytes(o.at.allocated_bytes) + " allocated" +
             dot() + bytes(cached) + " reserved but free" +
             (o.largest_free_bytes ? ", the largest block " + bytes(*o.largest_free_bytes) : "") + "\n";
      for (const SnapshotWay& way : f.ways)
        out += "    with " + way.words + ": " +
               (way.runs ? "it fits" : "it does not fit either, " + bytes(way.short_bytes) + " are missing") + "\n";
      if (f.ways.empty() || !f.ways.front().runs)
        out += "    what is alive there has to shrink by " + missing(o) + "\n";
    }
    return out + more(r_.failures.size(), "error");
  }

  std::string alive() const {
    if (r_.alive.empty()) return "";
    TextTable table({right, right, right, left});
    table.row({"alive at the peak", "%", "tensors", "line"});
    for (std::size_t i = 0; i < std::min(rows_, r_.alive.size()); ++i) {
      const SnapshotShare& s = r_.alive[i];
      table.row({bytes(s.bytes), share(s.bytes), format_count(s.tensors), s.text});
    }
    return "\n" + table.text() + more(r_.alive.size(), "line");
  }

  std::string modules() const {
    if (r_.modules.empty()) return "";
    TextTable table({right, right, right, left});
    table.row({"of those", "%", "tensors", "module whose forward allocated them"});
    for (std::size_t i = 0; i < std::min(rows_, r_.modules.size()); ++i) {
      const SnapshotShare& s = r_.modules[i];
      table.row({bytes(s.bytes), share(s.bytes), format_count(s.tensors), s.text});
    }
    return "\n" + table.text() + more(r_.modules.size(), "module");
  }

  std::string kinds() const {
    if (r_.kinds.empty()) return "";
    TextTable table({right, right, left});
    table.row({"by lifetime", "%", ""});
    for (std::size_t k = 0; k < r_.kinds.size(); ++k)
      table.row({bytes(r_.kinds[k]), share(r_.kinds[k]), name_of(static_cast<SnapshotKind>(k))});
    return "\n" + table.text();
  }

  std::string phases() const {
    if (r_.phases.empty()) return "";
    TextTable table({right, left});
    table.row({"peak", "in the phases of this step"});
    for (const SnapshotPhase& p : r_.phases) table.row({bytes(p.peak_bytes), p.name});
    return "\n" + table.text();
  }

  std::string steps() const {
    if (r_.steps.size() < 2) return "";
    TextTable table({right, right, right});
    table.row({"step", "peak", "at its end"});
    const std::size_t first = r_.steps.size() > rows_ ? r_.steps.size() - rows_ : 0;
    for (std::size_t i = first; i < r_.steps.size(); ++i)
      table.row({format_count(static_cast<std::int64_t>(i) + 1), bytes(r_.steps[i].peak_bytes),
                 bytes(r_.steps[i].end_bytes)});
    std::string out = "\n" + table.text();
    for (std::size_t i = 0; i < std::min(rows_, r_.growth.size()); ++i)
      out += "  grows by " + bytes(r_.growth[i].bytes_of_step) + " a step: " + r_.growth[i].text + "\n";
    if (r_.growth.empty() && r_.steps.size() >= 3) out += "  no line holds more after every step\n";
    return out;
  }

 private:
  std::string peak_words() const {
    if (h_.peak_event == kBeforeHistory) return "allocated, before the first event";
    return "allocated, at " + r_.peak_at + (r_.peak_step > 0 ? ", step " + format_count(r_.peak_step) : "") +
           ", event " + format_count(std::int64_t{h_.peak_event} + 1) + " of " +
           format_count(static_cast<std::int64_t>(r_.events));
  }
  std::string missing(const SnapshotOutOfMemory& o) const {
    const std::int64_t cached = o.at.reserved_bytes - o.at.allocated_bytes;
    const std::int64_t short_of = o.asked_bytes - o.free_bytes - cached;
    return short_of > 0 ? bytes(short_of) + ", or the request" : "nothing, if free memory were in one piece";
  }
  std::string share(std::int64_t n) const {
    return format_percent(static_cast<double>(n) /
                          static_cast<double>(std::max<std::int64_t>(h_.peak.allocated_bytes, 1)));
  }
  static std::string format_percent(double part) {
    const auto tenths = static_cast<std::int64_t>(part * 1000 + 0.5);
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
  }
  static std::string count(std::int64_t n, const std::string& one) {
    return format_count(n) + " " + one + (n == 1 ? "" : "s");
  }
  std::string more(std::size_t all, const std::string& what) const {
    if (all <= rows_) return "";
    return "  and " + count(static_cast<std::int64_t>(all - rows_), "more " + what) + "; -n 0 shows all\n";
  }

  const SnapshotReport& r_;
  const SnapshotHistory& h_;
  std::size_t rows_;
};

std::string history_words(const SnapshotReport& r) {
  const std::string events = format_count(static_cast<std::int64_t>(r.events)) + " events";
  if (r.events == 0) return "no history, only what is there at the end";
  if (!r.history.whole) return events + ", whose beginning is not there";
  return events + (r.history.adds_up ? ", the whole history" : ", which do not add up");
}

}  // namespace

std::string snapshot_text(const SnapshotPage& page, const TextStyle& style, std::size_t rows) {
  std::string out;
  for (const SnapshotReport& device : page.devices) {
    const std::string dot = style.unicode ? " · " : " | ";
    out += (out.empty() ? "" : "\n") + printable_text(page.file) + dot + "GPU " + std::to_string(device.device) + dot +
           history_words(device) + "\n";
    if (!page.alloc_conf.empty()) out += "  PYTORCH_ALLOC_CONF " + printable_text(page.alloc_conf) + "\n";
    const SnapshotScreen screen(device, style, rows == 0 ? SIZE_MAX : rows);
    out += screen.verdict() + screen.failures();
    if (!style.brief) out += screen.alive() + screen.modules() + screen.kinds() + screen.phases() + screen.steps();
  }
  return out;
}

std::string snapshot_md(const SnapshotPage& page, std::size_t rows) {
  TextStyle plain;
  return "```\n" + snapshot_text(page, plain, rows) + "```\n";
}

std::string snapshot_csv(const SnapshotPage& page) {
  std::string out = "device,line,file,number,bytes,tensors\n";
  for (const SnapshotReport& device : page.devices)
    for (const SnapshotShare& s : device.alive)
      out += std::to_string(device.device) + "," + csv_field(s.text) + "," + csv_field(s.file) + "," +
             std::to_string(s.line) + "," + std::to_string(s.bytes) + "," + std::to_string(s.tensors) + "\n";
  return out;
}

}  // namespace gpuplan
