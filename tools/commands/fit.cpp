// gpuplan fit MODEL: the largest batch of each GPU, what renting one costs, and which one to take.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "estimator/distributed/rank_share.h"
#include "estimator/plan/plan.h"
#include "estimator/report/fit_table.h"
#include "estimator/report/sweep_table.h"
#include "estimator/search/throughput.h"
#include "estimator/search/workers.h"
#include "layers/catalog.h"
#include "tools/answers/combinations.h"
#include "tools/answers/emit_job.h"
#include "tools/answers/fit_page.h"
#include "tools/answers/meshes.h"
#include "tools/answers/planning.h"
#include "tools/answers/solve.h"
#include "tools/answers/why_not_rented.h"
#include "tools/commands/commands.h"
#include "tools/options/commit_model.h"
#include "tools/options/fit_options.h"
#include "tools/options/instance_input.h"
#include "tools/options/learned_trace_input.h"
#include "tools/options/several_gpus.h"
#include "tools/options/words.h"
#include "tools/process/progress_line.h"
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

std::vector<std::string> names_of_gpus(const FitOptions& options) {
  if (!options.on.empty()) return options.on;
  if (!options.run.gpu.empty()) return {options.run.gpu};
  return gpu_names();
}

std::string render(std::span<const SweepRow> rows, const std::vector<std::string>& names, Format format,
                   const TextStyle& style) {
  switch (format) {
    case Format::json: return sweep_json_lines(names, rows);
    case Format::csv: return sweep_csv_heading(names) + sweep_csv_lines(rows);
    case Format::md: return sweep_md(names, rows);
    case Format::html:
    case Format::svg:
    case Format::table: break;
  }
  return sweep_text(names, rows, style);
}

// Prices and several GPUs are of the largest batch.
void refuse_beside(const std::string& asked, const FitOptions& options) {
  const std::pair<const char*, bool> flags[] = {{"--gpus", !options.gpus.empty()},
                                                {"--provider", !options.providers.empty()},
                                                {"--region", !options.region.empty()},
                                                {"--spot", options.spot},
                                                {"--budget", !options.budget.empty()},
                                                {"--samples", !options.samples.empty()},
                                                {"--emit", !options.emit.empty()},
                                                {"--prices", !options.prices.empty()},
                                                {"--epochs", !options.epochs.empty()},
                                                {"--zero", !options.zero.empty()},
                                                {"--wrap", !options.wrap.empty()},
                                                {"--network", !options.network.empty()},
                                                {"--max-batch", !options.max_batch.empty() && options.solve != "batch"},
                                                {"--find-unused-parameters", options.find_unused}};
  for (const auto& [flag, given] : flags)
    if (given) throw Error(std::string(flag) + " is not for " + asked, ErrorKind::usage);
}

// Their rows are few.
OutputOptions without_page(OutputOptions output) {
  output.has_page = false;
  return output;
}

int run_solve(const FitOptions& options) {
  const OutputOptions output = without_page(options.output);
  refuse_beside("--solve " + options.solve, options);
  const Format format = format_of(output);
  const std::vector<std::string> names = {"gpu", options.solve};
  (void)gpus_of(options);  // checked
  std::vector<SweepRow> rows;
  std::string notes, flags;
  if (options.solve != "batch")
    notes = "  at a batch of " + (options.run.batch.empty() ? "1" : options.run.batch) + "; --batch is another\n";
  for (const SolvedRow& solved : solve({options.run, options.solve, names_of_gpus(options), options.max_batch})) {
    rows.push_back(solved.row);
    if (solved.fits())
      flags += (options.run.gpu.empty() ? "--gpu " + solved.row.values[0] + " " : "") + solved.flags + "\n";
    if (solved.fits() && solved.models_most)
      notes += "  " + solved.row.values[0] + ": the model takes no " + options.solve + " above " +
               solved.row.values[1] + "\n";
  }
  for (const OutputFile& file : files_of(output))
    write_report(file, render(rows, names, file.format, file_style(options.output)));
  if (format != Format::table || !options.output.quiet)
    write_stdout(render(rows, names, format, terminal_style(options.output)) + (format == Format::table ? notes : ""));
  else
    write_stdout(flags);
  return flags.empty() ? 1 : 0;
}

// --may mesh: of several GPUs.
std::vector<SweepRow> ways_to_share(const FitOptions& options) {
  const auto says = [&](const char* word) { return std::ranges::find(options.may, word) != options.may.end(); };
  for (const std::string& word : options.may)
    if (word != "mesh" && word != "checkpoint" && word != "micro-batches")
      throw Error("--may mesh goes with checkpoint and micro-batches, not with " + word, ErrorKind::usage)
          .help("give the others as flags of the run");
  if (options.gpus.size() != 1 || options.gpus.front() == "any")
    throw Error("--may mesh needs one number of GPUs", ErrorKind::usage).help("--gpus 64");
  SeveralGpusOptions several;
  several.gpus = options.gpus.front();
  several.network = options.network;
  several.fsdp = options.fsdp;
  ProgressLine progress(!options.output.quiet);
  return meshes({options.run, several, says("checkpoint"), says("micro-batches")},
                [&](std::size_t done, std::size_t all) {
                  if (progress.due()) progress.show(std::to_string(done) + " of " + std::to_string(all) + " planned");
                });
}

// Of rows that are sorted; `asks_network`: times may be known with one.
std::string best_of(const std::vector<SweepRow>& rows, const std::string& best, bool asks_network) {
  if (best.empty()) return "";
  if (rows.front().figures->samples_per_second) return ", the fastest: " + best;
  return std::string(", the first of them: ") + best + "; times are not known" +
         (asks_network ? " (--network for more than one node)" : "");
}

// The fastest combination, and a few of those that are slower or do not fit.
int run_may(const FitOptions& options) {
  const OutputOptions output = without_page(options.output);
  const bool shares = std::ranges::find(options.may, "mesh") != options.may.end();
  FitOptions others = options;
  if (shares) others.gpus.clear();
  if (shares) others.network.clear();
  refuse_beside("--may", others);
  if (!shares && !options.fsdp.empty()) throw Error("--fsdp is not for --may without mesh", ErrorKind::usage);
  if (!options.on.empty() || !options.solve.empty())
    throw Error("--may asks of one GPU: --gpu names it, without --on and --solve", ErrorKind::usage);
  constexpr std::size_t kFitting = 6, kOthers = 3;
  const Format format = format_of(output);
  const std::vector<std::string> names = {"changes"};
  std::vector<SweepRow> rows = shares ? ways_to_share(options) : combinations({options.run, options.may});
  const auto fitting =
      static_cast<std::size_t>(std::ranges::count_if(rows, [](const SweepRow& row) { return row.figures->fits; }));
  const std::string best = fitting > 0 ? rows.front().values.front() : "";
  for (const OutputFile& file : files_of(output))
    write_report(file, render(rows, names, file.format, file_style(options.output)));
  if (format == Format::table && options.output.quiet) {
    write_stdout(best == "as asked" || best.empty() ? "" : best + "\n");
  } else if (format != Format::table) {
    write_stdout(render(rows, names, format, terminal_style(options.output)));
  } else {
    const std::size_t all = rows.size();
    rows.resize(std::min(all, fitting + kOthers));
    if (fitting > kFitting) rows.erase(rows.begin() + kFitting, rows.begin() + static_cast<std::ptrdiff_t>(fitting));
    write_stdout(
        render(rows, names, format, terminal_style(options.output)) + "  " +
        format_count(static_cast<std::int64_t>(fitting)) + " of " + format_count(static_cast<std::int64_t>(all)) +
        " combinations fit" + best_of(rows, best, shares && options.network.empty()) + "\n" +
        (shares ? "  each is a plan: gpuplan MODEL --gpus " + options.gpus.front() + " with its flags\n" : ""));
  }
  return fitting > 0 ? 0 : 1;
}

int run_fit(FitOptions options) {
  if (!options.may.empty()) return run_may(options);
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
    // `fit --max-batch MODEL`: CLI11 takes the word behind a flag whose value may be left out.
    const bool is_number = std::ranges::all_of(options->max_batch, [](char c) { return c >= '0' && c <= '9'; });
    if (options->run.model.empty() && !is_number) std::swap(options->run.model, options->max_batch);
    exit_code = run_fit(*options);
  });
}

}  // namespace gpuplan
