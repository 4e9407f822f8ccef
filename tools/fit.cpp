// gpuplan fit MODEL: the largest batch of each GPU, what renting one costs, and which one to take.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <memory>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "estimator/plan.h"
#include "estimator/plan_rank.h"
#include "estimator/report/fit_table.h"
#include "estimator/report/rent_job.h"
#include "estimator/search/offers.h"
#include "estimator/search/pace.h"
#include "estimator/search/workers.h"
#include "layers/catalog.h"
#include "tools/commands.h"
#include "tools/fit_options.h"
#include "tools/instance_input.h"
#include "tools/planning.h"
#include "tools/run_words.h"
#include "tools/trace_plan.h"
#include "tools/version.h"
#include "tools/why_not_rented.h"
#include "tools/words.h"

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
void find_ways(FitReport& report, const Model& model, const std::vector<Gpu>& table) {
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
  const Report step = row.strategy.shares() ? plan_rank(model, make_catalog(), run, row.strategy, {}, &gpu).report
                                            : plan(model, make_catalog(), run, &gpu);
  report.ways = ways_out(model, make_catalog(), step, gpu, others, row.strategy);
}

// What the report is made of, besides.
struct Answer {
  FitReport report;
  std::vector<Instance> instances;
  std::size_t model_files = 1;
};

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
    throw Error("--samples asks how long a run takes, which is not known of " + names.front(), ErrorKind::usage)
        .help("name a GPU: gpuplan gpus lists them");
}

Answer make_fit_report(const FitOptions& options) {
  refuse_learned_trace(options.run.model);
  FitReport report;
  report.question = question_of(options);
  const std::vector<Gpu> gpus = gpus_of(options);
  refuse_samples_of_sizes(report.question, options);
  report.all_gpus = options.all_gpus();
  const std::vector<Gpu> table = report.all_gpus ? gpus : gpu_table();
  std::vector<Instance> instances = load_instances(options.prices, table);
  match_places(report.question.providers, report.question.region, instances);
  const Model model = load_model(options.run);
  report.model = model.name;
  if (!model.sources.empty()) report.file = model.sources.front()->name;
  const HostCopy copy = host_copy(options.run);
  const PaceOfStep pace = [&](const RunConfig& run, const Gpu& gpu, const Strategy& strategy,
                              const Topology& topology) {
    return pace_of_step(model, make_catalog(), run, gpu, strategy, topology, copy);
  };
  const auto fit_of = [&](const FitQuestion& question) {
    return find_fit(model, make_catalog(), question, gpus, instances, cores(), pace);
  };
  report.fit = fit_of(report.question);
  refuse_named(report);
  if (!fits_any(report.fit) && options.gpus.empty() && report.question.run.mode == Mode::train)
    try_several(report, fit_of);
  if (report.all_gpus) sort_by_price(report.fit);
  if (!fits_any(report.fit)) find_ways(report, model, table);
  if (std::ranges::any_of(report.fit.rows, [](const FitRow& row) { return row.strategy.is_deepspeed(); }))
    report.warnings.emplace_back(kDeepSpeedWarning);
  if (fits_any(report.fit) && !report.fit.chosen) report.not_rented = why_not_rented(report, instances);
  return {std::move(report), std::move(instances), model.sources.size()};
}

// The batch that is validated fits all of these. The chosen GPU's come first, then the cheaper ones of the others.
std::vector<Instance> instances_to_try(const Answer& answer, const FitRow& chosen) {
  constexpr std::size_t kMost = 8;
  const FitQuestion& question = answer.report.question;
  const std::int64_t batch = batch_of(chosen, question);
  std::vector<Instance> list, others;
  for (const FitRow& row : answer.report.fit.rows) {
    if (row.largest.samples < batch || !row.fits || row.strategy.gpus > 1) continue;
    for (const Instance& i : rentable(row.gpu, question, answer.instances)) {
      const bool enlarged = i.most_gpus && i.gpu_count > 1;  // of what is sold by the GPU, where one is enough
      const bool affordable = !question.most_usd || *price_of(i, question) <= *question.most_usd;
      if (!enlarged && affordable && sky_rents(i)) (row.gpu.name == chosen.gpu.name ? list : others).push_back(i);
    }
  }
  const auto price = [&](const Instance& i) { return *price_of(i, question); };
  std::ranges::stable_sort(list, {}, price);
  std::ranges::stable_sort(others, {}, price);
  list.insert(list.end(), others.begin(), others.end());
  if (list.size() > kMost) list.resize(kMost);
  return list;
}

// A job has its command on a line.
void refuse_line_breaks(const std::string& word) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' '; };
  if (std::ranges::any_of(word, is_control))
    throw Error("--emit: a job's command cannot hold a line break or a control character", ErrorKind::usage)
        .help("rename the model's file");
}

enum class Engine : unsigned char { none, sky, slurm };

Engine engine_of(const FitOptions& options) {
  if (options.emit.empty()) return Engine::none;
  const Engine engine = choose<Engine>("--emit", options.emit, {{"sky", Engine::sky}, {"slurm", Engine::slurm}});
  if (!options.output.format.empty() || options.output.quiet)
    throw Error("--emit writes a job: leave --format and -q out", ErrorKind::usage);
  if (options.run.model == "-")
    throw Error("--emit: a job cannot read this standard input; put the model into a file", ErrorKind::usage);
  for (const std::string& word : run_words(options.run)) refuse_line_breaks(word);
  refuse_line_breaks(options.run.model);
  if (size_in_bytes(options.run.gpu))
    throw Error("--emit: a job needs a kind of GPU, not a size", ErrorKind::usage).help("--on t4,l4, or all of them");
  return engine;
}

int emit(const Answer& answer, const FitOptions& options, Engine engine, std::span<const std::string> job_files) {
  const FitReport& report = answer.report;
  if (!report.fit.chosen) {
    write_stderr(fit_text(report, terminal_style(options.output, 2), today()));
    return 1;
  }
  const FitRow& chosen = report.fit.rows[*report.fit.chosen];
  if (chosen.strategy.gpus > 1)
    throw Error("--emit: gpuplan validate, which the job runs, is of one GPU, and " +
                    std::to_string(chosen.strategy.gpus) + " are needed",
                ErrorKind::usage)
        .help("leave --gpus out, or take a smaller --batch");
  RentJob job;
  job.name = report.model;
  job.model = options.run.model;
  job.needs_file = !job.model.starts_with("zoo:");
  if (job.needs_file) job.model = std::filesystem::absolute(job.model).lexically_normal().string();
  if (job.needs_file && engine == Engine::sky && answer.model_files > 1)
    throw Error("--emit sky: the model extends other files, which the task would not mount", ErrorKind::usage)
        .help("gpuplan " + options.run.model + " --canonical prints it as one");
  job.flags = {"--batch", std::to_string(batch_of(chosen, report.question))};
  const std::vector<std::string> words = run_words(options.run);
  job.flags.insert(job.flags.end(), words.begin(), words.end());
  job.gpu = chosen.gpu.name;
  job.spot = options.spot;
  job.instances = instances_to_try(answer, chosen);
  if (engine == Engine::sky && job.instances.empty())
    throw Error("--emit sky: SkyPilot rents no instance of what fits here")
        .help("take other --provider, --region or --on; gpuplan instances lists what is known");
  const std::string text = engine == Engine::sky ? sky_task(job) : slurm_script(job);
  for (const std::string& file : job_files) write_file(file, text);
  if (job_files.empty()) write_stdout(text);
  return 0;
}

// `--emit sky -o task.yaml`: the job instead of standard output. What is a format's ending gets the report, as ever.
std::vector<std::string> take_job_files(OutputOptions& output, Engine engine) {
  std::vector<std::string> files;
  if (engine == Engine::none) return files;
  const auto is_job = [&](const std::string& name) {
    const auto ends = [&](const char* ending) { return name.ends_with(ending); };
    return engine == Engine::sky ? ends(".yaml") || ends(".yml") : ends(".sh") || ends(".sbatch") || ends(".slurm");
  };
  std::ranges::copy_if(output.files, std::back_inserter(files), is_job);
  std::erase_if(output.files, is_job);
  return files;
}

std::string render(const FitReport& report, Format format, const TextStyle& style) {
  switch (format) {
    case Format::json: return fit_json(report, kVersion, today());
    case Format::csv: return fit_csv(report);
    case Format::md: return fit_md(report);
    case Format::table: break;
  }
  return fit_text(report, style, today());
}

int run_fit(FitOptions options) {
  const Engine engine = engine_of(options);
  const std::vector<std::string> job_files = take_job_files(options.output, engine);
  const Format format = format_of(options.output);
  const std::vector<OutputFile> files = files_of(options.output);
  const TextStyle style = terminal_style(options.output);
  const Answer answer = make_fit_report(options);
  const FitReport& report = answer.report;
  for (const OutputFile& file : files) write_file(file.path, render(report, file.format, file_style(options.output)));
  const bool clean = show_warnings(report.warnings, options.output.quiet, options.run.strict);
  if (engine != Engine::none) return emit(answer, options, engine, job_files);
  const std::optional<std::size_t> chosen = report.fit.chosen;
  if (!options.output.quiet || format != Format::table)
    write_stdout(render(report, format, style));
  else if (chosen)
    write_stdout(arguments_of(report.fit.rows[*chosen], report.question) + "\n");
  else
    write_stderr(fit_text(report, terminal_style(options.output, 2), today()));
  return chosen && clean ? 0 : 1;
}

}  // namespace

void add_fit_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<FitOptions>();
  CLI::App* const command = app.add_subcommand("fit", "The largest batch of each GPU, its price, and which to take");
  add_fit_options(*command, *options);
  command->callback([options, &exit_code] {
    // `fit --max-batch MODEL`: CLI11 takes the word behind a flag whose value may be left out.
    const bool is_number = std::ranges::all_of(options->max_batch, [](char c) { return c >= '0' && c <= '9'; });
    if (options->run.model.empty() && !is_number) std::swap(options->run.model, options->max_batch);
    exit_code = run_fit(*options);
  });
}

}  // namespace gpuplan
