#include "tools/answers/plan_page.h"

#include <algorithm>

#include "estimator/base/format.h"
#include "estimator/plan/plan_snapshot.h"
#include "estimator/plan/run_names.h"
#include "estimator/plan/verdict.h"
#include "estimator/report/memory_page.h"
#include "estimator/report/roofline.h"
#include "estimator/report/several_gpus.h"
#include "estimator/report/text_style.h"
#include "estimator/report/time_text.h"
#include "estimator/report/writers.h"
#include "estimator/snapshot/snapshot_report.h"
#include "tools/answers/html_page.h"
#include "tools/process/version.h"

namespace gpuplan {
namespace {

constexpr std::size_t kMarkedOfRoofline = 12;

// The words of the terminal's screen.
class PageVerdict : public StyledScreen {
 public:
  using StyledScreen::StyledScreen;

  std::string of(const Report& report) const {
    const Verdict v = verdict(report);
    const std::string needs = "Needs " + bytes(report.peak.device_bytes);
    if (!v.known) return needs + " of device memory; no GPU is named";
    return needs + dot() +
           fit_words(v.fits, device_words(*report.gpu, report.margin), "", v.usable_bytes - report.peak.device_bytes);
  }
};

}  // namespace

std::string memory_of(const std::string& name, const Plan& plan) {
  if (plan.step.run.allocator != AllocatorKind::caching) return "";
  return memory_page_json(name, snapshot_of(plan), 0, PagePart::last_step);
}

std::string plan_page(const Report& report, const Snapshot& snapshot, const std::string& command,
                      const std::string& text) {
  HtmlPage page;
  page.title =
      report.model.name + ", " + std::string(name_of(report.run.mode)) + ", batch " + format_count(report.run.batch);
  page.subtitle = precision_words(report.run) + " · " +
                  (report.run.mode == Mode::train ? std::string(name_of(report.run.optimizer)) + " · " : "") +
                  (report.gpu ? report.gpu->title : "no GPU named, A100-class rules") + " · PyTorch " +
                  version_text(report.run.pytorch);
  page.verdict = PageVerdict(TextStyle{}).of(report);
  page.good = verdict(report).fits;
  page.cards = {{"peak allocated", format_bytes(report.peak.reading.allocated_bytes)},
                {"reserved", format_bytes(report.peak.reading.reserved_bytes)},
                {"needs, with the CUDA context", format_bytes(report.peak.device_bytes)},
                {"parameters", format_count(report.model.parameters)},
                {"a step", format_flops(report.compute.step_flops)}};
  if (report.time) page.cards.emplace_back("time of a step, modelled", format_seconds(report.time->seconds()));
  for (const Assumption& assumption : report.assumptions) page.notes.push_back(assumption.text);
  for (const std::string& warning : report.warnings) page.notes.push_back(warning);
  const std::vector<SnapshotStep> steps = report_of(snapshot, 0, lines_of(snapshot)).steps;
  if (!steps.empty() && !report.run.first_step && steps.back().peak_bytes != report.peak.reading.allocated_bytes)
    page.notes.push_back("The drawing has a peak of " + format_bytes(steps.back().peak_bytes) +
                         ": what is planned by definition, and not allocation by allocation, is not in it.");
  page.command = command;
  page.text = text;
  page.report_json = report.rank ? several_gpus_json(report, kVersion) : report_json(report, kVersion);
  page.memories = {memory_page_json(report.model.name, snapshot, 0,
                                    report.run.first_step ? PagePart::first_step : PagePart::last_step)};
  if (report.time && report.gpu)
    page.drawings.emplace_back("Layers on the GPU's roofline", roofline_svg(roofline(report), kMarkedOfRoofline));
  return html_text(page);
}

std::string runs_page(const std::vector<SnapshotPage>& pages, std::vector<std::string> memories,
                      const std::string& command, const std::string& text) {
  HtmlPage page;
  std::int64_t least = INT64_MAX, most = 0;
  std::string jsons;
  for (const SnapshotPage& of : pages) {
    for (const SnapshotReport& r : of.devices) {
      page.good = page.good && r.failures.empty();
      least = std::min(least, r.history.peak.allocated_bytes);
      most = std::max(most, r.history.peak.allocated_bytes);
    }
    for (const std::string& warning : of.warnings) page.notes.push_back(warning);
    jsons += (jsons.empty() ? "[" : ",") + snapshot_json(of, kVersion);
  }
  page.title = format_count(static_cast<std::int64_t>(pages.size())) + " memory snapshots";
  page.verdict = "Peaks from " + format_bytes(least) + " to " + format_bytes(most) +
                 (page.good ? "" : "; ✖ one ran out of memory");
  page.command = command;
  page.text = text;
  page.report_json = "{\"files\":" + jsons + "]}";
  page.memories = std::move(memories);
  return html_text(page);
}

std::string run_page(const SnapshotPage& of, const Snapshot& snapshot, const std::string& command,
                     const std::string& text) {
  const auto most =
      std::ranges::max_element(of.devices, {}, [](const SnapshotReport& r) { return r.history.peak.allocated_bytes; });
  const SnapshotHistory& history = most->history;
  HtmlPage page;
  page.title = of.file;
  page.subtitle = "A memory snapshot of PyTorch's · GPU " + std::to_string(most->device) + " · " +
                  format_count(static_cast<std::int64_t>(most->events)) + " events";
  page.good = most->failures.empty();
  page.verdict = page.good ? "Peak " + format_bytes(history.peak.allocated_bytes) + ", at " + most->peak_at
                           : "✖ Out of memory: " + format_bytes(most->failures.back().reading.asked_bytes) +
                                 " asked for at " + most->failures.back().text;
  page.cards = {{"peak allocated", format_bytes(history.peak.allocated_bytes)},
                {"reserved at most", format_bytes(history.peak.reserved_bytes)},
                {"allocated at the end", format_bytes(history.end.allocated_bytes)},
                {"largest free block at the end", format_bytes(most->largest_free_bytes)}};
  page.notes = of.warnings;
  page.command = command;
  page.text = text;
  page.report_json = snapshot_json(of, kVersion);
  page.memories = {memory_page_json(of.file, snapshot, most->device, PagePart::all)};
  return html_text(page);
}

}  // namespace gpuplan
