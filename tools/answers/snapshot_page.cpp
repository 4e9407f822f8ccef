#include "tools/answers/snapshot_page.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "estimator/base/excerpt.h"
#include "estimator/report/memory_page.h"
#include "estimator/report/snapshot_report_writers.h"
#include "estimator/report/text_table.h"
#include "tools/answers/plan_page.h"
#include "tools/answers/planning.h"
#include "tools/answers/snapshot_input.h"
#include "tools/answers/viewer_files.h"
#include "tools/options/words.h"
#include "tools/process/version.h"

namespace gpuplan {
namespace {

constexpr const char* kRows = "10";
constexpr std::int64_t kMostRows = 1'000'000, kMostDevices = 1 << 20;

// What a reader has to know before he believes the figures.
void warn(const Snapshot& snapshot, const SnapshotReport& r, std::vector<std::string>& warnings) {
  const std::string on = snapshot.name + ", GPU " + std::to_string(r.device) + ": ";
  if (r.events == 0)
    warnings.push_back(on + "no history was recorded: _record_memory_history() was off, or recorded the state alone");
  else if (const std::string doubt = doubt_about(r.history); !doubt.empty())
    warnings.push_back(on + doubt);
  if (r.steps_by_lines)
    warnings.push_back(on + "no step is marked; what torch.optim allocates after each backward tells them");
  else if (snapshot.marks.empty() && r.events > 0)
    warnings.push_back(on +
                       "no step is marked, so nothing is said of steps or kinds; torch.optim's optimizers mark them");
  if (has_private_pools(snapshot, r.device))
    warnings.push_back(on + "there are private pools, as CUDA graphs have them; a replay puts them into one");
}

SnapshotPage page_of(const Snapshot& snapshot, const std::optional<std::size_t>& only) {
  SnapshotPage page{.file = snapshot.name, .alloc_conf = snapshot.alloc_conf, .devices = {}, .warnings = {}};
  const std::vector<SnapshotLine> lines = lines_of(snapshot);
  for (std::size_t device = 0; device < snapshot.devices(); ++device) {
    if (only ? device != *only : !was_used(snapshot, device)) continue;
    page.devices.push_back(report_of(snapshot, device, lines));
    warn(snapshot, page.devices.back(), page.warnings);
  }
  if (!page.devices.empty()) return page;
  if (only)
    throw Error("--device " + std::to_string(*only) + ": " + snapshot.name + " has " +
                    std::to_string(snapshot.devices()) + (snapshot.devices() == 1 ? " GPU" : " GPUs"),
                ErrorKind::usage);
  throw Error(snapshot.name + " has neither events nor segments of a GPU")
      .help("the backend cudaMallocAsync keeps no history, and a process that allocated nothing has none");
}

std::string render_page(const SnapshotPage& page, Format format, const TextStyle& style, std::size_t rows) {
  switch (format) {
    case Format::json: return snapshot_json(page, kVersion);
    case Format::csv: return snapshot_csv(page);
    case Format::md: return snapshot_md(page, rows);
    case Format::html:  // a viewer's
    case Format::svg:
    case Format::table: break;
  }
  return snapshot_text(page, style, rows);
}

// Of several files: who took more than the others.
std::string ranks_text(const std::vector<SnapshotPage>& pages, const TextStyle& style) {
  using enum TextTable::Align;
  TextTable table({left, right, right, right, right});
  table.row({"of all", "GPU", "peak", "reserved", "above the least"});
  std::int64_t least = INT64_MAX;
  for (const SnapshotPage& page : pages)
    for (const SnapshotReport& r : page.devices) least = std::min(least, r.history.peak.allocated_bytes);
  for (const SnapshotPage& page : pages)
    for (const SnapshotReport& r : page.devices) {
      const SnapshotReading& peak = r.history.peak;
      table.row({printable_text(page.file), std::to_string(r.device), styled_bytes(peak.allocated_bytes, style),
                 styled_bytes(peak.reserved_bytes, style), styled_bytes(peak.allocated_bytes - least, style)});
    }
  return "\n" + table.text();
}

}  // namespace

int print_snapshots(const SnapshotQuestion& question, const OutputOptions& given) {
  OutputOptions output = given;
  const std::vector<ViewerFile> viewers = take_viewers(output);
  const Format format = format_of(output);
  const std::vector<OutputFile> files = files_of(output);
  const TextStyle style = terminal_style(output);
  const auto rows =
      static_cast<std::size_t>(whole_number("--rows", question.rows.empty() ? kRows : question.rows, 0, kMostRows));
  std::optional<std::size_t> device;
  if (!question.device.empty())
    device = static_cast<std::size_t>(whole_number("--device", question.device, 0, kMostDevices));
  const TextStyle plain = file_style(output);
  const bool several = question.files.size() > 1;
  const auto is_page = [](const ViewerFile& file) { return file.viewer == Viewer::html; };
  if (several && (!files.empty() || format != Format::table || !std::ranges::all_of(viewers, is_page)))
    throw Error("-o and --format are for one snapshot, but html is for several, too", ErrorKind::usage)
        .help("name one file, or -o report.html");
  std::vector<SnapshotPage> pages;
  std::vector<std::string> memories;
  const TextStyle& shown = several && !viewers.empty() ? plain : style;
  std::string text;
  bool clean = true, printed = false;
  for (const std::string& name : question.files) {
    Snapshot snapshot = open_snapshot(name);
    const SnapshotPage& page = pages.emplace_back(page_of(snapshot, device));
    clean = show_warnings(page.warnings, output.quiet, question.strict) && clean;
    text += (text.empty() ? "" : "\n") + render_page(page, format, shown, rows);
    if (several) {
      for (const SnapshotReport& r : page.devices)
        if (!viewers.empty())
          memories.push_back(
              memory_page_json(name + ", GPU " + std::to_string(r.device), snapshot, r.device, PagePart::all));
      continue;
    }
    for (const OutputFile& file : files) write_report(file, render_page(page, file.format, file_style(output), rows));
    const auto html = [&](const Snapshot& of) {
      return run_page(page, of, question.command, snapshot_text(page, {}, rows));
    };
    printed = write_viewers(
        viewers, [&] { return std::move(snapshot); }, html);
  }
  if (several) {
    text += ranks_text(pages, shown);
    const std::string html = viewers.empty() ? "" : runs_page(pages, std::move(memories), question.command, text);
    for (const ViewerFile& file : viewers) {
      write_viewer_file(file, html);
      printed = printed || file.path.empty();
    }
  }
  if (!printed) write_stdout(text);
  return clean ? 0 : 1;
}

}  // namespace gpuplan
