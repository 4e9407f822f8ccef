// gpuplan fit MODEL: the largest batch of each GPU, what renting one costs, and which one to take.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <tuple>
#include <utility>

#include "estimator/plan.h"
#include "estimator/report/fit_table.h"
#include "estimator/report/rent_job.h"
#include "estimator/search/workers.h"
#include "estimator/time/step_time.h"
#include "layers/catalog.h"
#include "tools/commands.h"
#include "tools/instance_input.h"
#include "tools/money.h"
#include "tools/output_options.h"
#include "tools/planning.h"
#include "tools/run_options.h"
#include "tools/run_words.h"
#include "tools/trace_plan.h"
#include "tools/version.h"
#include "tools/words.h"

namespace gpuplan {

namespace {

struct FitOptions {
  RunOptions run;
  OutputOptions output;
  std::vector<std::string> on, providers;
  std::string max_batch, region, budget, prices, emit, samples, epochs;
  bool spot = false;
};

// The GPUs that --on or --gpu name, as it names them; of the table all.
std::vector<Gpu> gpus_of(const FitOptions& options) {
  if (!options.on.empty() && !options.run.gpu.empty())
    throw Error("--on and --gpu both say on what: take one of them", ErrorKind::usage);
  std::vector<std::string> names = options.on;
  if (!options.run.gpu.empty()) names.push_back(options.run.gpu);
  if (names.empty()) return gpu_table();
  std::vector<Gpu> gpus;
  for (const std::string& name : names) {
    RunOptions run;
    run.gpu = name;
    gpus.push_back(*load_gpu(run));
    const auto same = [&](const Gpu& other) { return other.name == gpus.back().name; };
    if (std::ranges::count_if(gpus, same) > 1)
      throw Error("--on names " + gpus.back().name + " twice", ErrorKind::usage);
    if (usable_bytes(gpus.back()) <= 0)
      throw Error("how much memory " + gpus.back().title + " has is not known: its file says no memory_bytes");
  }
  return gpus;
}

FitQuestion question_of(const FitOptions& options) {
  FitQuestion question;
  RunOptions run = options.run;
  if (run.batch.empty()) run.batch = run.micro_batches;  // the smallest that splits into them
  question.run = run_config(run);
  if (question.run.allocator != AllocatorKind::caching)
    throw Error("--allocator: what fits is asked of PyTorch's caching allocator", ErrorKind::usage);
  if (!options.run.batch.empty()) question.batch = question.run.batch;
  if (!options.max_batch.empty()) question.most = whole_number("--max-batch", options.max_batch, 1, question.most);
  if (question.batch && *question.batch > question.most)
    throw Error("--batch " + options.run.batch + " is more than --max-batch " + options.max_batch, ErrorKind::usage);
  if (question.run.micro_batches > question.most)
    throw Error("--max-batch " + options.max_batch + " is less than a sample for each micro-batch", ErrorKind::usage);
  if (!options.budget.empty()) question.most_usd = usd_per_hour("--budget", options.budget);
  if (!options.samples.empty()) question.samples = amount("--samples", options.samples, 1e12);
  if (question.samples && question.run.generation.part != Generation::Part::none)
    throw Error("--samples: a step of a generation makes a token of each sample, not samples", ErrorKind::usage)
        .help("leave --phase out, or --samples");
  if (!options.epochs.empty()) {
    if (!question.samples) throw Error("--epochs says how often --samples are seen: give both", ErrorKind::usage);
    question.epochs = amount("--epochs", options.epochs, 1e6);
  }
  question.spot = options.spot;
  question.providers = options.providers;
  question.region = options.region;
  return question;
}

void refuse_unknown(const char* flag, const std::string& word, std::vector<std::string> words) {
  std::ranges::sort(words);
  words.erase(std::unique(words.begin(), words.end()), words.end());  // Clang 14 cannot use libstdc++'s ranges::unique
  if (std::ranges::find(words, word) == words.end()) throw unknown_word(flag, word, words);
}

void refuse_unknown_places(const FitOptions& options, const std::vector<Instance>& instances) {
  std::vector<std::string> providers, regions;
  for (const Instance& i : instances) {
    providers.push_back(i.provider);
    if (!i.region.empty()) regions.push_back(i.region);
  }
  for (const std::string& provider : options.providers) refuse_unknown("--provider", provider, providers);
  if (!options.region.empty()) refuse_unknown("--region", options.region, regions);
}

// A GPU that the user names has to have the arithmetic; of the whole table those that do not are left out.
void refuse_named(const FitReport& report) {
  if (report.all_gpus) return;
  for (const FitRow& row : report.fit.rows)
    if (!row.refused.empty())
      throw Error(row.refused).help("take another --precision or --amp, or leave " + row.gpu.name + " out");
}

// What most people look for stands first: what fits, at its price.
void sort_by_price(Fit& fit) {
  const auto key = [](const FitRow& row) {
    return std::tuple(!row.fits, row.usd.value_or(HUGE_VAL), row.usable_bytes);
  };
  const std::string chosen = fit.chosen ? fit.rows[*fit.chosen].gpu.name : "";
  std::ranges::stable_sort(fit.rows, {}, key);
  for (std::size_t i = 0; i < fit.rows.size(); ++i)
    if (fit.rows[i].gpu.name == chosen) fit.chosen = i;
}

// Where nothing fits: the GPU that lacks least, and the changes that help there.
void find_ways(FitReport& report, const Model& model, const std::vector<Gpu>& gpus) {
  std::int64_t least = 0;
  for (std::size_t i = 0; i < report.fit.rows.size(); ++i) {
    const FitRow& row = report.fit.rows[i];
    const std::int64_t needs = report.question.batch ? row.asked_bytes : row.largest.bytes;
    const std::int64_t lacks = needs - row.usable_bytes;
    if (!row.refused.empty() || needs == 0 || (report.closest && lacks >= least)) continue;
    report.closest = i;
    least = lacks;
  }
  if (!report.closest) return;
  RunConfig run = report.question.run;
  const FitRow& row = report.fit.rows[*report.closest];
  if (!report.question.batch) run.batch = row.largest.least;
  const Gpu& gpu = row.gpu;
  report.ways = ways_out(model, make_catalog(), plan(model, make_catalog(), run, &gpu), gpu, gpus);
}

// What the report is made of, besides.
struct Answer {
  FitReport report;
  std::vector<Instance> instances;
};

Answer make_fit_report(const FitOptions& options) {
  refuse_learned_trace(options.run.model);
  FitReport report;
  report.question = question_of(options);
  const std::vector<Gpu> gpus = gpus_of(options);
  report.all_gpus = options.on.empty() && options.run.gpu.empty();
  const std::vector<Gpu> table = report.all_gpus ? gpus : gpu_table();
  std::vector<Instance> instances = load_instances(options.prices, table);
  refuse_unknown_places(options, instances);
  const Model model = load_model(options.run);
  report.model = model.name;
  if (!model.sources.empty()) report.file = model.sources.front()->name;
  const HostCopy copy = host_copy(options.run);
  const StepSeconds seconds = [&](const RunConfig& run, const Gpu& gpu) -> std::optional<double> {
    const auto time = step_time(model, make_catalog(), run, gpu, copy);
    return time ? std::optional(time->seconds()) : std::nullopt;
  };
  report.fit = find_fit(model, make_catalog(), report.question, gpus, instances, cores(), seconds);
  refuse_named(report);
  if (report.all_gpus) sort_by_price(report.fit);
  if (std::ranges::none_of(report.fit.rows, &FitRow::fits)) find_ways(report, model, table);
  return {std::move(report), std::move(instances)};
}

// The batch that is validated fits all of these; the chosen GPU's come first, at one price each.
std::vector<Instance> instances_to_try(const Answer& answer, const FitRow& chosen) {
  constexpr std::size_t kMost = 8;
  const FitQuestion& question = answer.report.question;
  const std::int64_t batch = batch_of(chosen, question);
  std::vector<Instance> list;
  for (const FitRow& row : answer.report.fit.rows) {
    if (row.largest.samples < batch || !row.fits) continue;
    for (const Instance& i : rentable(row.gpu, question, answer.instances))
      if (sky_rents(i) && (!question.most_usd || *price_of(i, question) <= *question.most_usd)) list.push_back(i);
  }
  std::ranges::stable_sort(list, {}, [&](const Instance& i) { return *price_of(i, question); });
  if (list.size() > kMost) list.resize(kMost);
  return list;
}

enum class Engine : unsigned char { none, sky, slurm };

Engine engine_of(const FitOptions& options) {
  if (options.emit.empty()) return Engine::none;
  const Engine engine = choose<Engine>("--emit", options.emit, {{"sky", Engine::sky}, {"slurm", Engine::slurm}});
  if (!options.output.format.empty() || options.output.quiet)
    throw Error("--emit writes a job: leave --format and -q out", ErrorKind::usage);
  if (options.run.model == "-")
    throw Error("--emit: a job cannot read this standard input; put the model into a file", ErrorKind::usage);
  if (size_in_bytes(options.run.gpu))
    throw Error("--emit: a job needs a kind of GPU, not a size", ErrorKind::usage).help("--on t4,l4, or all of them");
  return engine;
}

int emit(const Answer& answer, const FitOptions& options, Engine engine) {
  const FitReport& report = answer.report;
  if (!report.fit.chosen) {
    write_stderr(fit_text(report, terminal_style(options.output, 2), today()));
    return 1;
  }
  const FitRow& chosen = report.fit.rows[*report.fit.chosen];
  RentJob job;
  job.name = report.model;
  job.model = options.run.model;
  job.needs_file = !job.model.starts_with("zoo:");
  job.flags = {"--batch", std::to_string(batch_of(chosen, report.question))};
  const std::vector<std::string> words = run_words(options.run);
  job.flags.insert(job.flags.end(), words.begin(), words.end());
  job.gpu = chosen.gpu.name;
  job.spot = options.spot;
  job.instances = instances_to_try(answer, chosen);
  if (engine == Engine::sky && job.instances.empty())
    throw Error("--emit sky: SkyPilot rents no instance of what fits here")
        .help("take other --provider, --region or --on; gpuplan instances lists what is known");
  write_stdout(engine == Engine::sky ? sky_task(job) : slurm_script(job));
  return 0;
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

int run_fit(const FitOptions& options) {
  const Format format = format_of(options.output);
  const std::vector<OutputFile> files = files_of(options.output);
  const TextStyle style = terminal_style(options.output);
  const Engine engine = engine_of(options);
  const Answer answer = make_fit_report(options);
  const FitReport& report = answer.report;
  for (const OutputFile& file : files) write_file(file.path, render(report, file.format, file_style(options.output)));
  if (engine != Engine::none) return emit(answer, options, engine);
  const std::optional<std::size_t> chosen = report.fit.chosen;
  if (!options.output.quiet || format != Format::table)
    write_stdout(render(report, format, style));
  else if (chosen)
    write_stdout(arguments_of(report.fit.rows[*chosen], report.question) + "\n");
  return chosen ? 0 : 1;
}

}  // namespace

void add_fit_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<FitOptions>();
  CLI::App* const command = app.add_subcommand("fit", "The largest batch of each GPU, its price, and which to take");
  add_run_options(*command, options->run);
  const char* const question = "What is asked";
  command->add_option("--on", options->on, "Of these GPUs, with commas (all)")
      ->delimiter(',')
      ->type_name("GPU")
      ->group(question);
  const auto add = [&](const char* names, std::string& value, const char* type, const char* text) {
    command->add_option(names, value, text)->type_name(type)->group(question);
  };
  add("--max-batch", options->max_batch, "N", "No larger batch than this");
  command->add_option("--provider", options->providers, "Rented from this cloud; several with commas")
      ->delimiter(',')
      ->type_name("NAME")
      ->group(question);
  add("--region", options->region, "NAME", "Rented in this region");
  command->add_flag("--spot", options->spot, "At the price of preemptible instances")->group(question);
  add("--budget", options->budget, "AMOUNT", "An hour of the instance costs no more, as in 5usd/h");
  add("--samples", options->samples, "N", "Of an epoch, as in 1.28M: how long it takes and what it costs");
  add("--epochs", options->epochs, "N", "Of the run");
  add("--prices", options->prices, "FILE", "Instances of this file, as gpuplan instances import writes it");
  add("--emit", options->emit, "sky|slurm",
      "Prints a job that validates the chosen one: SkyPilot's task, or sbatch's script");
  add_output_options(*command, options->output);
  command->callback([options, &exit_code] { exit_code = run_fit(*options); });
}

}  // namespace gpuplan
