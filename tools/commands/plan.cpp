// gpuplan plan MODEL: how much memory and how many FLOPs a step takes, where its peak is, whether it fits a device.
#include "estimator/base/integers.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "estimator/plan/plan_snapshot.h"
#include "estimator/report/count_as.h"
#include "estimator/report/several_gpus.h"
#include "estimator/report/writers.h"
#include "estimator/spec/canonical.h"
#include "estimator/spec/read.h"
#include "estimator/time/step_time.h"
#include "layers/catalog.h"
#include "tools/answers/emit_launch.h"
#include "tools/answers/evaluation.h"
#include "tools/answers/every_rank.h"
#include "tools/answers/every_stage.h"
#include "tools/answers/learned_model.h"
#include "tools/answers/library_loop.h"
#include "tools/answers/plan_page.h"
#include "tools/answers/planning.h"
#include "tools/answers/shared_planning.h"
#include "tools/answers/snapshot_input.h"
#include "tools/answers/snapshot_page.h"
#include "tools/answers/stages.h"
#include "tools/answers/trace_plan.h"
#include "tools/answers/unequal_lengths.h"
#include "tools/answers/viewer_files.h"
#include "tools/commands/commands.h"
#include "tools/options/accelerate_config.h"
#include "tools/options/deepspeed_config.h"
#include "tools/options/learned_trace_input.h"
#include "tools/options/megatron_arguments.h"
#include "tools/options/output_options.h"
#include "tools/options/run_words.h"
#include "tools/options/several_gpus.h"
#include "tools/options/words.h"
#include "tools/process/version.h"

namespace gpuplan {

namespace {

struct PlanOptions {
  RunOptions run;
  OutputOptions output;
  SeveralGpusOptions several;
  LengthsOptions lengths;
  EvaluationOptions evaluation;
  std::string count_as, command, emit;
  bool canonical = false;
  bool learn = false, no_learn = false;

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
                   const std::vector<Suggestion>& suggestions) {
  const LayerTableOptions layers = layer_table_options(options.output, style.unicode);
  switch (format) {
    case Format::json: return report.rank ? several_gpus_json(report, kVersion) : report_json(report, kVersion);
    case Format::csv: return report_csv(report);
    case Format::md: return report_md(report, layers);
    case Format::html:  // a viewer's
    case Format::svg:
    case Format::table: break;
  }
  std::string text = report_text(report, style, suggestions);
  if (options.wants_layers()) text += "\n" + report_layers(report, layers);
  if (report.rank && !style.brief) text += "\n" + several_gpus_text(report, style);
  return text;
}

void refuse_model_flags(const PlanOptions& options) {
  if (options.output.timeline)
    throw Error("--timeline: a trace has phases, which its table shows", ErrorKind::usage).help("leave it out");
  if (options.canonical || !options.count_as.empty())
    throw Error(
        std::string(options.canonical ? "--canonical" : "--count-as") + ": a trace has allocations, but no layers",
        ErrorKind::usage);
  if (strategy_of(options.several))
    throw Error("--gpus: a trace is of one process, and is planned as it is", ErrorKind::usage)
        .help("gpuplan shadow --gpus N runs a script on several");
}

void refuse_beside(const PlanOptions& options, const std::string& loop, bool on_one_gpu = true) {
  const std::pair<const char*, bool> flags[] = {{"--gpus", on_one_gpu && strategy_of(options.several).has_value()},
                                                {"--count-as", !options.count_as.empty()},
                                                {"--canonical", options.canonical},
                                                {"--learn", options.learn},
                                                {"--timeline", options.output.timeline},
                                                {"a table of layers", options.wants_layers()}};
  for (const auto& [flag, given] : flags)
    if (given)
      throw Error(std::string(flag) + " with " + loop + " is not planned", ErrorKind::usage).help("leave it out");
}

// With none of the flags that they are not planned with.
bool plans_evaluation(const PlanOptions& options) {
  if (!asks_for_evaluation(options.evaluation)) return false;
  if (!options.lengths.lengths.empty())
    throw Error("--seq-lengths with --eval-batch is not planned", ErrorKind::usage).help("one of them at a time");
  refuse_beside(options, "--eval-batch");
  return true;
}
bool plans_lengths(const PlanOptions& options) {
  if (options.lengths.lengths.empty()) {
    if (!options.lengths.steps.empty())
      throw Error("--steps is for --seq-lengths", ErrorKind::usage)
          .help("--seq-lengths lognormal:mean=600,max=4096 --steps 200");
    return false;
  }
  refuse_beside(options, "--seq-lengths");
  return true;
}

// Where a GPU is named, and the plan is of one.
std::function<TimedSnapshot()> timed_snapshot(const Plan& plan, HostCopy copy) {
  if (plan.named_gpu() == nullptr) return {};
  const auto times = std::make_shared<std::optional<ModelledTimes>>(modelled_times(plan.step, copy));
  if (!*times) return {};
  return [&plan, times] { return timed_snapshot_of(plan, **times); };
}

Learning learning(const PlanOptions& options) {
  return options.learn ? Learning::always : options.no_learn ? Learning::never : Learning::by_itself;
}

// A library's own loop is planned as it was run.
void refuse_beside_library(const PlanOptions& options) {
  const std::string loop = library_asked(options.run);
  refuse_beside(options, loop, false);
  for (const auto& [flag, given] : {std::pair{"--eval-batch", !options.evaluation.batch.empty()},
                                    {"--seq-lengths", !options.lengths.lengths.empty()}})
    if (given)
      throw Error(std::string(flag) + " with " + loop + " is not planned", ErrorKind::usage)
          .help("--like trainer and --lora are planned with it");
}

// It is explained, and takes no flag of a run.
int explain_snapshot(const PlanOptions& options) {
  const std::pair<const char*, bool> others[] = {
      {"--timeline", options.output.timeline},       {"--margin", !options.run.margin.empty()},
      {"--steps", !options.lengths.steps.empty()},   {"--gpus", strategy_of(options.several).has_value()},
      {"--count-as", !options.count_as.empty()},     {"--canonical", options.canonical},
      {"--depth", !options.output.depth.empty()},    {"--sort", !options.output.sort.empty()},
      {"--columns", !options.output.columns.empty()}};
  for (const auto& [flag, given] : others)
    if (given)
      throw Error(std::string(flag) + ": " + options.run.model + " is a snapshot, which has events and no layers",
                  ErrorKind::usage)
          .help("gpuplan snapshot --help has its flags");
  RunOptions flags = options.run;
  flags.model.clear();
  if (const std::vector<std::string> given = run_words(flags);
      !given.empty() || !flags.batch.empty() || !flags.gpu.empty())
    throw Error((!given.empty()         ? given.front()
                 : !flags.batch.empty() ? "--batch"
                                        : "--gpu") +
                    ": " + options.run.model + " is a snapshot of a run as it was",
                ErrorKind::usage)
        .help("gpuplan replay runs it with other settings or on another GPU");
  return print_snapshots({{options.run.model}, "", options.output.rows, options.command, options.run.strict},
                         options.output);
}

int run_plan(PlanOptions options) {
  const bool runs_library = is_library_loop(options.run);
  if (runs_library) refuse_beside_library(options);
  if (plans_evaluation(options)) return print_with_evaluation(options.run, options.evaluation, options.output);
  if (plans_lengths(options)) return print_unequal_lengths(options.run, options.lengths, options.output);
  if (runs_library)
    options.run = learned_library_loop(options.run, std::exchange(options.several, {}));
  else if (std::optional<RunOptions> learned = learned_instead(options.run, learning(options)))
    options.run = *std::move(learned);
  if (is_snapshot(options.run.model)) return explain_snapshot(options);
  const NamedFile model = open_input(options.run.model);
  options.run.piped = model.piped;
  if (is_learned_trace(model)) {
    refuse_model_flags(options);
    return plan_learned_trace(options.run, options.output);
  }
  // Every flag is understood before anything is read.
  if (!options.several.megatron.empty())
    read_megatron(options.several, options.run);
  else if (!options.several.accelerate.empty())
    read_accelerate(options.several, options.run);
  else if (!options.several.deepspeed.empty())
    read_deepspeed(options.several, options.run);
  const Sharing sharing = sharing_of(options.run, strategy_of(options.several));
  const bool in_stages = sharing == Sharing::formulas, runs_stages = sharing == Sharing::stages;
  const std::optional<LaunchAsked> launch = launch_asked(options.emit, options.run, options.output);
  if (launch && !options.several.megatron.empty())
    throw Error("--emit: " + options.several.megatron + " is what starts this plan", ErrorKind::usage)
        .help("leave out --emit");
  const std::vector<ViewerFile> viewers = in_stages ? std::vector<ViewerFile>{} : take_viewers(options.output);
  const Format format = format_of(options.output);
  const std::vector<OutputFile> files = files_of(options.output);
  const TextStyle style = terminal_style(options.output);
  (void)layer_table_options(options.output, style.unicode);
  const std::optional<CountingTool> tool = counting_tool(options.count_as);
  auto [planning, strategy] = prepare_shared(options.run, options.several);
  if ((!viewers.empty() || options.output.timeline) && (options.canonical || in_stages))
    throw Error(std::string("html, memviz, --timeline and their like are not there with ") +
                    (in_stages ? "--tp and --pp" : "--canonical"),
                ErrorKind::usage);
  if (strategy && options.several.deepspeed_options)
    fill_in_auto(*options.several.deepspeed_options, planning.model, *strategy);
  if (options.canonical) {
    write_stdout(canonical_yaml(planning.model));
    return 0;
  }
  if (strategy && tool) throw Error("--count-as is for one GPU", ErrorKind::usage).help("leave out --gpus");
  if (in_stages && launch)
    return emit_stages(*launch, planning, *strategy, options.run, options.several, options.output);
  if (in_stages) return print_stages(planning, *strategy, options.run, options.several, options.output);
  const Topology topology = topology_of(options.several, planning.gpu);
  const bool any = strategy && options.several.rank.empty();
  const bool every = asks_for_every_rank(options.several) || (runs_stages && any);
  PlannedReport plan_and_report = every         ? plan_every_rank(planning, *strategy, topology)
                                  : runs_stages ? plan_stage(planning, *strategy, topology)
                                  : any         ? plan_worst_rank(planning, *strategy, topology)
                                                : make_planned(planning, strategy.value_or(Strategy{}), topology);
  if (launch) return emit_launch(*launch, planning, plan_and_report, options.run, options.output);
  auto& [planned, report] = plan_and_report;
  if (tool)
    report.count_as = {.tool = std::string(name_of(*tool)),
                       .unit = std::string(unit_of(*tool)),
                       .per_sample = count_as_per_sample(*tool, report),
                       .batch = checked_mul(count_as_per_sample(*tool, report), planning.run.batch)};
  const bool clean = show_warnings(report, options.output.quiet, options.run.strict);
  const std::vector<Suggestion> suggestions = suggest(planning, report);
  for (const OutputFile& file : files)
    write_report(file, render(report, file.format, file_style(options.output), options, suggestions));
  const auto page = [&, &of = report](const Snapshot& snapshot) {
    return plan_page(of, snapshot, options.command,
                     render(of, Format::table, file_style(options.output), options, suggestions));
  };
  if (!write_viewers(
          viewers, [&plan = planned] { return snapshot_of(plan); }, page, timed_snapshot(planned, planning.copy)))
    write_stdout(render(report, format, style, options, suggestions));
  return clean && verdict(report).fits ? 0 : 1;
}

}  // namespace

void add_plan_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<PlanOptions>();
  CLI::App* const command =
      app.add_subcommand("plan", "Predicts the memory, FLOPs and time of a step, and whether it fits");
  add_run_options(*command, options->run);
  add_margin_option(*command, options->run);
  command->add_flag("--canonical", options->canonical,
                    "Prints the model with all blocks and variables expanded, and exits");
  CLI::Option* const learn = command->add_flag(
      "--learn", options->learn, "Of a model in Python: learns its step on a simulated GPU instead of exporting it");
  command
      ->add_flag("--no-learn", options->no_learn,
                 "Of a model in Python: plans its spec, also where that differs from the model's own step")
      ->excludes(learn);
  command
      ->add_option("--seq-lengths", options->lengths.lengths,
                   "Plans a loop whose samples are of these lengths, each batch padded to its longest")
      ->type_name("FILE|lognormal:mean=N,max=N");
  command->add_option("--steps", options->lengths.steps, "Of --seq-lengths: how many (a distribution: 200)")
      ->type_name("N");
  add_evaluation_options(*command, options->evaluation);
  command->add_option("--count-as", options->count_as, "Also prints the FLOP count that this tool would print")
      ->type_name("fvcore|ptflops|thop|torchinfo|deepspeed|torch");
  command
      ->add_option("--emit", options->emit,
                   "Prints what starts the plan of several GPUs: a script for torchrun, a config of torchtitan's or "
                   "DeepSpeed's, or Megatron-LM's arguments")
      ->type_name("torchrun|torchtitan|deepspeed|megatron")
      ->group("Several GPUs");
  command->add_flag("--timeline", options->output.timeline, "Draws the memory over the step, also where it is piped");
  add_several_gpus_options(*command, options->several);
  add_layer_options(*command, options->output);
  add_output_options(*command, options->output);
  options->output.has_page = true;
  command->get_option("--format")->type_name(kFormatsWithViewers);
  command->footer(kWhatFits);
  command->callback([options, command, &exit_code] {
    options->command = options->output.command = given_command(*command);
    exit_code = run_plan(*options);
  });
}

}  // namespace gpuplan
