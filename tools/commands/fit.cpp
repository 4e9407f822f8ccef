// gpuplan fit MODEL: the largest batch of each GPU, what renting one costs, and which one to take.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>

#include "estimator/distributed/rank_share.h"
#include "estimator/plan/plan.h"
#include "estimator/report/fit_table.h"
#include "estimator/search/throughput.h"
#include "estimator/search/workers.h"
#include "layers/catalog.h"
#include "tools/answers/emit_job.h"
#include "tools/answers/fit_page.h"
#include "tools/answers/planning.h"
#include "tools/answers/why_not_rented.h"
#include "tools/commands/commands.h"
#include "tools/commands/fit_changes.h"
#include "tools/options/commit_model.h"
#include "tools/options/fit_options.h"
#include "tools/options/instance_input.h"
#include "tools/options/learned_trace_input.h"
#include "tools/options/words.h"
#include "tools/process/version.h"

namespace gpuplan {

namespace {

// A GPU that the user names has to have the arithmetic; of the whole table those that do not are left out.
void refuse_named(const FitReport& report) {
  if (report.all_gpus) return;
  for (const FitRow& row : report.fit.rows)
    if (!row.refused.empty())
      throw Error(row.refused).help("take another --precision or --amp, or leave " + row.gpu.name + " out");
}

// What most people look for stands first: what fits, at its price.
void sort_by_price(Fit& fit) {
  std::vector<std::size_t> order(fit.rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) {
    const FitRow& row = fit.rows[i];
    return std::tuple(!row.fits, row.usd.value_or(HUGE_VAL), row.usable_bytes);
  });
  std::vector<FitRow> sorted;
  std::optional<std::size_t> chosen;
  for (const std::size_t i : order) {
    if (fit.chosen == i) chosen = sorted.size();
    sorted.push_back(std::move(fit.rows[i]));
  }
  fit.rows = std::move(sorted);
  fit.chosen = chosen;
}

// With what may be taken of its memory as all there is.
Gpu within_limit(Gpu gpu, const FitQuestion& question) {
  gpu.cuda_total_bytes = limit_bytes(gpu, question);
  return gpu;
}

// Where nothing fits: the GPU that lacks least, and the changes that help there.
void find_suggestions(FitReport& report, const Model& model, const std::vector<Gpu>& table) {
  const FitQuestion& question = report.question;
  std::int64_t least = 0;
  for (std::size_t i = 0; i < report.fit.rows.size(); ++i) {
    const FitRow& row = report.fit.rows[i];
    const std::int64_t needs = question.batch ? row.asked_bytes : row.largest.bytes;
    const std::int64_t lacks = needs - row.limit_bytes;
    if (!row.refused.empty() || needs == 0 || (report.closest && lacks >= least)) continue;
    report.closest = i;
    least = lacks;
  }
  if (!report.closest) return;
  const FitRow& row = report.fit.rows[*report.closest];
  RunConfig run = question.run;
  run.batch = question.batch.value_or(row.largest.least);
  const Gpu gpu = within_limit(row.gpu, question);
  std::vector<Gpu> others;
  for (const Gpu& other : table) others.push_back(within_limit(other, question));
  const Report step = report_of(make_plan(model, make_catalog(), run, &gpu, row.strategy));
  report.suggestions = suggest(model, make_catalog(), step, gpu, others, row.strategy);
}

bool fits_any(const Fit& fit) { return std::ranges::any_of(fit.rows, &FitRow::fits); }

// Nobody asked for several GPUs, and one is not enough: the instances that have several are asked.
void try_several(FitReport& report, const auto& fit_of) {
  FitQuestion several = report.question;
  several.gpus.clear();
  several.uses_idle = false;
  try {
    Fit fit = fit_of(several);
    if (!fits_any(fit)) return;
    report.fit = std::move(fit);
  } catch (const Error&) {
    return;  // the run is none for several
  }
  report.question = several;
  report.one_is_not_enough = true;
}

void refuse_samples_of_sizes(const FitQuestion& question, const FitOptions& options) {
  std::vector<std::string> names = options.on;
  if (!options.run.gpu.empty()) names.push_back(options.run.gpu);
  const auto is_size = [](const std::string& name) { return size_in_bytes(name).has_value(); };
  if (question.samples && !names.empty() && std::ranges::all_of(names, is_size))
    throw Error("--samples needs step times, and they are not known for " + names.front(), ErrorKind::usage)
        .help("name a known GPU: gpuplan gpus lists them");
}

FitAnswer make_fit_report(const FitOptions& options) {
  refuse_learned_trace({options.run.model, options.run.piped});
  FitReport report;
  report.question = question_of(options);
  const std::vector<Gpu> gpus = gpus_of(options);
  refuse_samples_of_sizes(report.question, options);
  report.all_gpus = options.all_gpus();
  const std::vector<Gpu> table = report.all_gpus ? gpus : gpu_table();
  std::vector<Instance> instances = load_instances(options.prices, table);
  match_places(report.question.providers, report.question.region, instances);
  const WrittenModel written = open_model(options.run);
  const Model model = read_model(written.source, written.options);
  report.warnings = about_stored_type(written.stored_type, options.run);
  report.model = model.name;
  if (!model.sources.empty()) report.file = model.sources.front()->name;
  const HostCopy copy = host_copy(options.run);
  const ThroughputOf throughput = [&](const RunConfig& run, const Gpu& gpu, const Strategy& strategy) {
    return throughput_of(model, make_catalog(), run, gpu, strategy, copy);
  };
  const auto fit_of = [&](const FitQuestion& question) {
    return find_fit(model, make_catalog(), question, gpus, instances, cores(), throughput);
  };
  report.fit = fit_of(report.question);
  refuse_named(report);
  if (!fits_any(report.fit) && options.gpus.empty() && report.question.run.mode == Mode::train)
    try_several(report, fit_of);
  if (report.all_gpus) sort_by_price(report.fit);
  if (!fits_any(report.fit)) find_suggestions(report, model, table);
  if (std::ranges::any_of(report.fit.rows,
                          [&](const FitRow& row) { return by_definition(report.question.run, row.strategy); }))
    report.warnings.emplace_back(kDeepSpeedWarning);
  if (fits_any(report.fit) && !report.fit.chosen) report.not_rented = why_not_rented(report, instances);
  return {std::move(report), std::move(instances), model.sources.size()};
}

std::string render(const FitReport& report, Format format, const TextStyle& style, const OutputOptions& output) {
  switch (format) {
    case Format::json: return fit_json(report, kVersion, today());
    case Format::csv: return fit_csv(report);
    case Format::md: return fit_md(report);
    case Format::html: return fit_page(report, output);
    case Format::svg:
    case Format::table: break;
  }
  return fit_text(report, style, today());
}

int run_fit(FitOptions options) {
  if (!options.join.empty()) return run_join(options);
  if (!options.may.empty()) return run_may(options);
  if (!options.shard.empty())
    throw Error("--shard is of --may, whose ways or combinations have parts", ErrorKind::usage)
        .help("--may mesh --gpus any --shard " + options.shard);
  if (!options.solve.empty()) return run_solve(options);
  const Engine engine = engine_of(options);
  const std::vector<std::string> job_files = take_job_files(options.output, engine);
  const Format format = format_of(options.output);
  const std::vector<OutputFile> files = files_of(options.output);
  TextStyle style = terminal_style(options.output);
  if (!options.output.width.empty())
    style.interactive = true;  // a pipe has all columns, unless it is told how wide it is
  const FitAnswer answer = make_fit_report(options);
  const FitReport& report = answer.report;
  for (const OutputFile& file : files)
    write_report(file, render(report, file.format, file_style(options.output), options.output));
  const bool clean = show_warnings(report.warnings, options.output.quiet, options.run.strict);
  if (engine != Engine::none) return emit_job(answer, options, engine, job_files);
  const std::optional<std::size_t> chosen = report.fit.chosen;
  if (!options.output.quiet || format != Format::table)
    write_stdout(render(report, format, style, options.output));
  else if (chosen)
    write_stdout(arguments_of(report.fit.rows[*chosen], report.question) + "\n");
  else
    write_stderr(fit_text(report, terminal_style(options.output, 2), today()));
  return chosen && clean ? 0 : 1;
}

// What the parts say already.
void refuse_beside_join(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options())
    if (option->count() > 0 && option->get_group() != "Output" && !option->check_lname("join"))
      throw Error("the files of --join say all that was asked", ErrorKind::usage)
          .help("leave out " + option->get_name());
}

}  // namespace

void add_fit_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<FitOptions>();
  CLI::App* const command =
      app.add_subcommand("fit", "Finds the largest batch that fits each GPU, its price, and the best choice");
  add_fit_options(*command, *options);
  command->footer(kWhatFits);
  options->output.has_page = true;
  command->get_option("--format")->type_name("table|json|csv|md|html");
  command->callback([options, command, &exit_code] {
    options->output.command = given_command(*command);
    options->search = given_command(*command, [](const CLI::Option& option) {
      return option.get_group() == "Output" || option.check_lname("shard");
    });
    if (!options->join.empty()) refuse_beside_join(*command);
    // `fit --max-batch MODEL`: CLI11 takes the word behind a flag whose value may be left out.
    const bool is_number = std::ranges::all_of(options->max_batch, [](char c) { return c >= '0' && c <= '9'; });
    if (options->run.model.empty() && !is_number) std::swap(options->run.model, options->max_batch);
    exit_code = run_fit(*options);
  });
}

}  // namespace gpuplan
