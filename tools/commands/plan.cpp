// gpuplan plan MODEL: how much memory and how many FLOPs a step takes, where its peak is, whether it fits a device.
#include "estimator/base/integers.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "estimator/plan/at_most.h"
#include "estimator/plan/plan.h"
#include "estimator/plan/plan_rank.h"
#include "estimator/report/count_as.h"
#include "estimator/report/several_gpus.h"
#include "estimator/report/time_text.h"
#include "estimator/report/writers.h"
#include "estimator/spec/canonical.h"
#include "estimator/time/step_time.h"
#include "estimator/time/time_rank.h"
#include "layers/catalog.h"
#include "tools/answers/planning.h"
#include "tools/answers/stages.h"
#include "tools/answers/trace_plan.h"
#include "tools/commands/commands.h"
#include "tools/options/learned_trace_input.h"
#include "tools/options/output_options.h"
#include "tools/options/several_gpus.h"
#include "tools/options/words.h"
#include "tools/process/version.h"

namespace gpuplan {

namespace {

struct PlanOptions {
  RunOptions run;
  OutputOptions output;
  SeveralGpusOptions several;
  std::string count_as;
  bool canonical = false;

  bool wants_layers() const {
    return !output.depth.empty() || !output.rows.empty() || !output.sort.empty() || !output.columns.empty();
  }
};

std::optional<CountingTool> counting_tool(const std::string& word) {
  if (word.empty()) return std::nullopt;
  Choices<CountingTool> tools;
  for (const CountingTool tool : kCountingTools) tools.emplace_back(std::string(name_of(tool)), tool);
  return choose<CountingTool>("--count-as", word, tools);
}

std::string render(const Report& report, Format format, const TextStyle& style, const PlanOptions& options,
                   const std::vector<WayOut>& ways) {
  const LayerTableOptions layers = layer_table_options(options.output, style.unicode);
  switch (format) {
    case Format::json: return report_json(report, kVersion);
    case Format::csv: return report_csv(report);
    case Format::md: return report_md(report, layers);
    case Format::table: break;
  }
  return report_text(report, style, ways) + (options.wants_layers() ? "\n" + report_layers(report, layers) : "");
}

void refuse_model_flags(const PlanOptions& options) {
  if (options.canonical || !options.count_as.empty())
    throw Error(
        std::string(options.canonical ? "--canonical" : "--count-as") + ": a trace has allocations and no layers",
        ErrorKind::usage);
}

std::string render(const RankPlan& plan, Format format, const TextStyle& style, const PlanOptions& options,
                   const std::vector<WayOut>& ways) {
  if (format == Format::json) return several_gpus_json(plan, kVersion);
  const std::string text = render(plan.report, format, style, options, ways);
  return format == Format::table && !style.brief ? text + "\n" + several_gpus_text(plan, style) : text;
}

void tell_rank_time(const Planning& planning, RankPlan& plan) {
  plan.time = time_rank(planning.model, make_catalog(), planning.run, plan.strategy, plan.communication, *planning.gpu,
                        planning.copy);
  if (plan.time) return tell_time(plan.time->step, plan.report);
  const std::string why = why_no_time(planning.run, *planning.gpu, planning.copy);
  plan.report.no_time = why.empty() ? "the link between the GPUs is not: --gpu, and --network beyond a node" : why;
}

int plan_several(const PlanOptions& options, const Planning& planning, const Strategy& strategy, Format format,
                 const TextStyle& style, std::span<const OutputFile> files) {
  if (strategy.tensor * strategy.pipeline > 1)
    return print_stages(planning, strategy, options.run, options.several, options.output);
  RankPlan plan = plan_rank(planning.model, make_catalog(), planning.run, strategy,
                            topology_of(options.several, planning.gpu), planning.gpu ? &*planning.gpu : nullptr);
  plan.report.margin = planning.margin;
  if (planning.gpu && !planning.gpu_is_limit) tell_rank_time(planning, plan);
  if (planning.other_padding)
    allow_for_padding(plan_rank(*planning.other_padding, make_catalog(), planning.run, strategy,
                                topology_of(options.several, planning.gpu), planning.gpu ? &*planning.gpu : nullptr)
                          .report,
                      plan.report);
  plan.report.warnings.insert(plan.report.warnings.end(), planning.warnings.begin(), planning.warnings.end());
  const bool clean = show_warnings(plan.report, options.output.quiet, options.run.strict);
  std::vector<WayOut> ways;
  if (planning.gpu) ways = ways_out(planning.model, make_catalog(), plan.report, *planning.gpu, {}, strategy);
  for (const OutputFile& file : files)
    write_report(file, render(plan, file.format, file_style(options.output), options, ways));
  write_stdout(render(plan, format, style, options, ways));
  return clean && verdict(plan.report).fits ? 0 : 1;
}

int run_plan(PlanOptions options) {
  const NamedFile model = open_input(options.run.model);
  options.run.piped = model.piped;
  if (is_learned_trace(model)) {
    refuse_model_flags(options);
    return plan_learned_trace(options.run, options.output);
  }
  // Every flag is understood before anything is read.
  const Format format = format_of(options.output);
  const std::vector<OutputFile> files = files_of(options.output);
  const TextStyle style = terminal_style(options.output);
  (void)layer_table_options(options.output, style.unicode);
  const std::optional<CountingTool> tool = counting_tool(options.count_as);
  const std::optional<Strategy> strategy = strategy_of(options.several);
  const Planning planning = prepare(options.run);
  if (options.canonical) {
    write_stdout(canonical_yaml(planning.model));
    return 0;
  }
  if (strategy && tool) throw Error("--count-as counts the step of one GPU", ErrorKind::usage).help("leave --gpus out");
  if (strategy) return plan_several(options, planning, *strategy, format, style, files);
  Report report = make_report(planning);
  if (planning.other_padding)
    allow_for_padding(
        plan(*planning.other_padding, make_catalog(), planning.run, planning.gpu ? &*planning.gpu : nullptr), report);
  if (tool)
    report.count_as = {.tool = std::string(name_of(*tool)),
                       .unit = std::string(unit_of(*tool)),
                       .per_sample = count_as_per_sample(*tool, report),
                       .batch = checked_mul(count_as_per_sample(*tool, report), planning.run.batch)};
  const bool clean = show_warnings(report, options.output.quiet, options.run.strict);
  const std::vector<WayOut> ways = ways_out(planning, report);
  for (const OutputFile& file : files)
    write_report(file, render(report, file.format, file_style(options.output), options, ways));
  write_stdout(render(report, format, style, options, ways));
  return clean && verdict(report).fits ? 0 : 1;
}

}  // namespace

void add_plan_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<PlanOptions>();
  CLI::App* const command = app.add_subcommand("plan", "Memory and FLOPs of a step, its peak, and whether it fits");
  add_run_options(*command, options->run);
  add_margin_option(*command, options->run);
  command->add_flag("--canonical", options->canonical, "Prints the model with everything expanded, and stops");
  command->add_option("--count-as", options->count_as, "Also counts FLOPs as that tool does")
      ->type_name("fvcore|ptflops|thop|torchinfo|deepspeed|torch");
  add_several_gpus_options(*command, options->several);
  add_layer_options(*command, options->output);
  add_output_options(*command, options->output);
  command->footer(kWhatFits);
  command->callback([options, &exit_code] { exit_code = run_plan(*options); });
}

}  // namespace gpuplan
