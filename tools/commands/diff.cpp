// gpuplan diff [A] [B] [-- MODEL]: what a change does to a step's memory, FLOPs and time, and which lines did it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "estimator/compare/cause_models.h"
#include "estimator/plan/plan.h"
#include "estimator/plan/plan_snapshot.h"
#include "estimator/report/diff_report.h"
#include "estimator/spec/read.h"
#include "layers/catalog.h"
#include "tools/answers/diff_sides.h"
#include "tools/answers/planning.h"
#include "tools/answers/report_page.h"
#include "tools/commands/commands.h"
#include "tools/options/growth_limits.h"
#include "tools/options/output_options.h"
#include "tools/process/version.h"

namespace gpuplan {

namespace {

struct DiffOptions {
  RunOptions run;
  OutputOptions output;
  DiffWords words;
  std::vector<std::string> fail_on;
  std::vector<std::string> run_flags;  // those that are given
  bool exit_code = false;
};

constexpr const char* kDiffHelp =
    "With a model after --, A and B are commits or saved plans; without one they are files.\n"
    "\n"
    "  gpuplan diff origin/main -- configs/gpt2.yaml -b 8 --opt adam    a commit with the working tree\n"
    "  gpuplan diff v1.0 v2.0 -- configs/gpt2.yaml                      two commits\n"
    "  gpuplan diff configs/gpt2.yaml                                   what this branch changes\n"
    "  gpuplan diff old.yaml new.yaml -b 8                              two files\n"
    "  gpuplan diff old.json new.json                                   two plans, or recorded runs, that were saved\n"
    "  gpuplan diff a.pickle b.pickle                                   two memory snapshots, or a plan and a "
    "snapshot\n"
    "\n"
    "The exit code is 0 whether or not anything differs. With --exit-code it is 1 if a figure differs; with --fail-on\n"
    "it is 1 if a figure (peak, reserved, device, params, flop, seconds) grew by more than a percentage of the base "
    "or\n"
    "an amount: \"peak +5%\", \"device +512MiB\", \"params +1M\", \"flop +0.5 TFLOP\", \"seconds +2ms\".";

// Both sides are planned as the flags say.
void plan_side(OpenSide& open, const Planning& run, bool wants_snapshot, std::vector<std::string>& warnings) {
  if (!open.warning.empty()) warnings.push_back(open.warning);
  if (!open.written) return;
  Planning planning = run;
  planning.model = read_model(open.written->source, open.written->options);
  const auto [plan, report] = make_planned(planning);
  if (wants_snapshot && plan.step.run.allocator == AllocatorKind::caching) open.snapshot = snapshot_of(plan);
  for (const std::string& warning : report.warnings)
    if (std::ranges::find(warnings, warning) == warnings.end()) warnings.push_back(warning);
  open.side.figures = figures_of(report);
  open.layers = report.layers.size();
}

// What each of several causes does to the peak: a plan for each, so that neither their number nor the model may be
// huge.
std::optional<Attribution> effects_of(const OpenSides& sides, const Planning& run, const DiffReport& report) {
  const std::size_t n = report.causes.size();
  if (!kBoundsOfDiff.allow(n, sides.now.layers)) return std::nullopt;
  const CauseModels models(*sides.base.written, *sides.now.written, report.causes);
  const auto peak = [&](const Model& model) {
    return plan(model, make_catalog(), run.run, run.gpu ? &*run.gpu : nullptr).peak.reading.allocated_bytes;
  };
  const std::vector<Variable>& set = sides.now.written->options.set;
  Attribution effects = attribute(n, report.base.figures->allocated_bytes, report.now.figures->allocated_bytes,
                                  [&](const std::vector<bool>& made) { return models.amount(made, set, peak); });
  const bool none =
      effects.together == 0 && std::ranges::all_of(effects.effects, [](const Effect& e) { return e.delta == 0; });
  return none ? std::nullopt : std::optional(std::move(effects));
}

DiffReport compare(OpenSides sides, const Planning& run, const std::vector<GrowthLimit>& limits) {
  DiffReport report;
  report.base = std::move(sides.base.side);
  report.now = std::move(sides.now.side);
  if (!report.base.figures || !report.now.figures) return report;
  report.differences = differences(*report.base.figures, *report.now.figures);
  report.run_changes = run_changes(*report.base.figures, *report.now.figures);
  report.causes_known = sides.base.written && sides.now.written;
  if (report.causes_known) {
    report.causes = causes(*sides.base.written, *sides.now.written, make_catalog());
    report.effects = effects_of(sides, run, report);
  }
  for (const GrowthLimit& limit : limits) {
    const auto found = std::ranges::find(report.differences->totals, limit.metric, &Difference::metric);
    if (found == report.differences->totals.end())
      throw Error("--fail-on \"" + limit.text + "\": that figure is not known on both sides", ErrorKind::usage)
          .help(limit.metric == Metric::step_time ? "how long a step takes is known for a GPU: --gpu NAME"
                                                  : "a recorded run has its memory only");
    report.limits.push_back({limit, found->total, exceeds(found->total, limit)});
  }
  return report;
}

std::string page_of(const DiffReport& report, const OutputOptions& output, const std::vector<std::string>& memories) {
  TextStyle brief;
  brief.brief = true;
  return report_page({.text = diff_text(report, file_style(output)),
                      .json = diff_json(report, kVersion),
                      .verdict = diff_text(report, report.differences ? brief : TextStyle{}),
                      .good = report.within_limits(),
                      .notes = report.warnings,
                      .drawings = {},
                      .memories = memories,
                      .memory_first = true},
                     output);
}

std::string render(const DiffReport& report, Format format, const TextStyle& style, const OutputOptions& output,
                   const std::vector<std::string>& memories) {
  switch (format) {
    case Format::json: return diff_json(report, kVersion);
    case Format::csv: return diff_csv(report);
    case Format::md: return diff_md(report, style);
    case Format::html: return page_of(report, output, memories);
    case Format::svg:
    case Format::table: break;
  }
  return diff_text(report, style);
}

int run_diff(const DiffOptions& options) {
  // Every flag is understood before anything is read.
  const Format format = format_of(options.output);
  const std::vector<OutputFile> files = files_of(options.output);
  const TextStyle style = terminal_style(options.output);
  std::vector<GrowthLimit> limits;
  for (const std::string& text : options.fail_on) limits.push_back(read_growth_limit(text));
  const Planning run = prepare_run(options.run);

  OpenSides sides = open_sides(options.words, options.run);
  const auto takes_flags = [](const OpenSide& side) { return side.written || side.is_trace; };
  if (!takes_flags(sides.base) && !takes_flags(sides.now) && !options.run_flags.empty())
    throw Error(options.run_flags[0] + ": plans that are saved are not planned again", ErrorKind::usage);
  std::vector<std::string> warnings;
  const bool has_page =
      format == Format::html || std::ranges::find(files, Format::html, &OutputFile::format) != files.end();
  plan_side(sides.base, run, has_page || sides.now.is_snapshot, warnings);
  plan_side(sides.now, run, has_page || sides.base.is_snapshot, warnings);
  const bool by_line = sides.base.is_snapshot && sides.now.is_snapshot;
  if (sides.base.snapshot && sides.now.snapshot && sides.base.is_snapshot != sides.now.is_snapshot)
    sides.base.is_snapshot ? compare_by_life(sides.now, *sides.base.side.figures)
                           : compare_by_life(sides.base, *sides.now.side.figures);
  std::vector<std::string> memories;
  if (has_page)
    for (const OpenSide* side : {&sides.base, &sides.now})
      if (std::string memory = memory_of(*side); !memory.empty()) memories.push_back(std::move(memory));
  DiffReport report = compare(std::move(sides), run, limits);
  report.by_line = by_line;
  if (!report.differences && !limits.empty())
    warnings.emplace_back("--fail-on: nothing has grown, since the model is on one side only");
  report.warnings = std::move(warnings);
  const bool clean = show_warnings(report.warnings, options.output.quiet, options.run.strict);
  for (const OutputFile& file : files)
    write_report(file, render(report, file.format, file_style(options.output), options.output, memories));
  write_stdout(render(report, format, style, options.output, memories));
  if (!clean || !report.within_limits()) return 1;
  return options.exit_code && report.differs() ? 1 : 0;
}

}  // namespace

void add_diff_command(CLI::App& app, int& exit_code, std::optional<std::string> model) {
  const auto options = std::make_shared<DiffOptions>();
  options->words.model = std::move(model);
  CLI::App* const command =
      app.add_subcommand("diff", "Shows what a change to a model costs, and which lines cause it");
  add_run_options(*command, options->run);
  command->remove_option(command->get_option("model"));  // it stands behind --
  std::vector<const CLI::Option*> run_flags;
  for (const CLI::Option* option : command->get_options())
    if (!option->check_lname("help")) run_flags.push_back(option);
  command->add_option("sides", options->words.sides, "The base and what to compare with it: commits or files")
      ->type_name("A B");
  const char* const group = "Comparison";
  command->add_flag("--merge-base", options->words.merge_base, "Uses the merge base of HEAD and A as the base")
      ->group(group);
  command->add_flag("--exit-code", options->exit_code, "Exits with 1 if any figure differs")->group(group);
  command
      ->add_option("--fail-on", options->fail_on,
                   "Exits with 1 if a figure grew by more, such as \"peak +5%\"; repeatable")
      ->type_name("LIMIT")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(group);
  add_output_options(*command, options->output);
  command->footer(kDiffHelp);
  options->output.has_page = true;
  command->get_option("--format")->type_name("table|json|csv|md|html");
  command->callback([options, command, run_flags, &exit_code] {
    options->output.command = given_command(*command);
    for (const CLI::Option* flag : run_flags)
      if (flag->count() > 0) options->run_flags.push_back(flag->get_name());
    exit_code = run_diff(*options);
  });
}

}  // namespace gpuplan
