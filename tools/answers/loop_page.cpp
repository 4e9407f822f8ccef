#include "tools/answers/loop_page.h"

#include <algorithm>

#include "estimator/device/arithmetic.h"
#include "estimator/distributed/nccl_memory.h"
#include "estimator/plan/make_report.h"
#include "estimator/plan/warnings.h"
#include "tools/answers/planning.h"
#include "tools/answers/report_page.h"
#include "tools/process/version.h"

namespace gpuplan {
namespace {

void tell_peak(BatchSteps& made, const Planning& planning, LengthsReport& r) {
  const std::size_t peak = r.peak_step();
  const auto step = made.at(r.batches[peak]);
  const PeakPlace& at = r.steps[peak].at;
  const std::string phase(name_of(at.phase)), place = where(step->step, at);
  r.peak_place = place.empty() || place == phase ? phase : phase + " of " + place;
  r.context_bytes = context_bytes(r.run, step->step.gpu);
  r.context_confidence = context_confidence(r.run, step->step.gpu);
  if (r.fits() || !planning.gpu) return;
  const std::int64_t room = std::max<std::int64_t>(usable_bytes(*planning.gpu) - r.context_bytes, 0);
  const LimitedReplay limited = replay_batches(made, r.batches, r.run, room).limited;
  const std::size_t failed = limited.training_step < 0 ? 0 : static_cast<std::size_t>(limited.training_step);
  r.within_memory = within_memory(made.at(r.batches[failed])->step, limited);
}

std::string page_of(const LengthsReport& report, const OutputOptions& output) {
  TextStyle brief;
  brief.brief = true;
  std::vector<std::string> notes = report.assumptions;
  notes.insert(notes.end(), report.warnings.begin(), report.warnings.end());
  return report_page({.text = lengths_text(report, file_style(output)),
                      .json = lengths_json(report, kVersion),
                      .verdict = lengths_text(report, brief),
                      .good = report.fits(),
                      .notes = std::move(notes),
                      .drawings = {},
                      .memories = {}},
                     output);
}

std::string render(const LengthsReport& report, Format format, const TextStyle& style, const OutputOptions& output) {
  switch (format) {
    case Format::json: return lengths_json(report, kVersion);
    case Format::csv: return lengths_csv(report);
    case Format::html: return page_of(report, output);
    default: return lengths_text(report, style);
  }
}

}  // namespace

void refuse_loop_formats(const OutputOptions& output) {
  std::vector<OutputFile> wanted = files_of(output);
  wanted.push_back({format_of(output), ""});
  for (const OutputFile& file : wanted)
    if (file.format == Format::md)
      throw Error("a loop is printed as a table, as JSON, CSV or HTML", ErrorKind::usage)
          .help("--format table, json, csv or html");
}

LengthsReport begin_loop(const Planning& planning) {
  if (planning.run.save != SavedCheckpoint::none)
    throw Error("--save is not planned with --eval-batch or batches of several lengths", ErrorKind::usage)
        .help("leave out one of them");
  if (planning.gpu) refuse_arithmetic(planning.run, *planning.gpu);
  LengthsReport r;
  r.run = planning.run;
  r.gpu = planning.gpu;
  r.margin = planning.margin;
  return r;
}

void finish_loop(BatchSteps& made, const Planning& planning, const RunOptions& options, LengthsReport& r) {
  tell_peak(made, planning, r);
  const auto trained = std::ranges::find_if_not(r.batches, &StepBatch::evaluates);
  const auto shown = made.at(r.lengths.empty() ? *trained : r.batches[r.peak_step()]);
  r.model = shown->model.name;
  for (const Variable& v : shown->model.vars)
    if (v.name == "seq") r.usual_tokens = v.value;
  if (!shown->model.sources.empty()) r.file = shown->model.sources.front()->name;
  r.warnings = warnings_about(shown->model, shown->step.graph, r.run, planning.gpu ? &*planning.gpu : nullptr);
  for (std::string& warning : made.stored_type_warning(options)) r.warnings.push_back(std::move(warning));
  if (planning.gpu_is_limit) r.warnings.emplace_back(kOnlyALimit);
}

int print_loop(const LengthsReport& r, bool strict, const OutputOptions& output) {
  const bool clean = show_warnings(r.warnings, output.quiet, strict);
  for (const OutputFile& file : files_of(output))
    write_report(file, render(r, file.format, file_style(output), output));
  write_stdout(render(r, format_of(output), terminal_style(output), output));
  return clean && r.fits() ? 0 : 1;
}

}  // namespace gpuplan
