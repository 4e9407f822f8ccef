#include "tools/answers/emit_job.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <utility>

#include "estimator/base/integers.h"
#include "estimator/report/rent_job.h"
#include "estimator/search/offers.h"
#include "tools/options/instance_input.h"
#include "tools/options/kept_file.h"
#include "tools/options/run_words.h"
#include "tools/options/words.h"
#include "tools/process/read_source.h"

namespace gpuplan {
namespace {

constexpr std::size_t kMostInstances = 8;  // that a job tries

// The batch that is validated fits all of these. The chosen GPU's come first, then the cheaper ones of the others.
std::vector<Instance> instances_to_try(const FitAnswer& answer, const FitRow& chosen) {
  const FitQuestion& question = answer.report.question;
  const std::int64_t batch = batch_of(chosen, question);
  std::vector<Instance> list, others;
  for (const FitRow& row : answer.report.fit.rows) {
    if (row.largest.samples < batch || !row.fits || row.strategy.shares()) continue;
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
  if (list.size() > kMostInstances) list.resize(kMostInstances);
  return list;
}

// The same of several GPUs that share a step: those that have exactly as many, the row's own first.
std::vector<Instance> instances_to_share(const FitAnswer& answer, const FitRow& chosen) {
  const FitQuestion& question = answer.report.question;
  std::vector<Instance> list, others;
  if (!chosen.instance) return {};
  const bool joined = chosen.instances > 1;
  if (joined ? sky_joins(*chosen.instance) : sky_rents(*chosen.instance)) list.push_back(*chosen.instance);
  if (joined) return list;
  const auto alike = [&](const FitRow& row) {
    return row.fits && row.strategy.gpus == chosen.strategy.gpus && row.strategy.data == chosen.strategy.data &&
           row.instances == 1 && row.largest.samples >= batch_of(chosen, question);
  };
  for (const FitRow& row : answer.report.fit.rows) {
    if (!alike(row)) continue;
    for (const Instance& i : rentable(row.gpu, question, answer.instances)) {
      const bool affordable = !question.most_usd || *price_of(i, question) <= *question.most_usd;
      const bool same = i.provider == chosen.instance->provider && i.name == chosen.instance->name;
      if (i.gpu_count == static_cast<double>(row.strategy.gpus) && affordable && !same && sky_rents(i))
        others.push_back(i);
    }
  }
  std::ranges::stable_sort(others, {}, [&](const Instance& i) { return *price_of(i, question); });
  list.insert(list.end(), others.begin(), others.end());
  if (list.size() > kMostInstances) list.resize(kMostInstances);
  return list;
}

// What torchrun starts where. A cluster has its own nodes, whatever would be rented.
void share(const FitAnswer& answer, FitRow chosen, Engine engine, RentJob& job) {
  if (engine == Engine::slurm) chosen.instance.reset(), chosen.instances = 1;
  const std::int64_t gpus = chosen.strategy.gpus;
  const std::int64_t most = answer.report.question.strategy.gpus_per_node;  // of a cluster's node
  job.nodes = chosen.instance ? chosen.instances : ceil_div(gpus, most);
  if (gpus % job.nodes != 0)
    throw Error("--emit: " + std::to_string(gpus) + " GPUs cannot be divided equally among " +
                    std::to_string(job.nodes) + " instances, as torchrun requires",
                ErrorKind::usage)
        .help("choose another number with --gpus");
  job.processes = gpus / job.nodes;
  job.samples = batch_of(chosen, answer.report.question) / gpus;
  job.instances = instances_to_share(answer, chosen);
  job.plan = shell_word(job.model) + " " + arguments_of(chosen, answer.report.question);
  for (std::size_t i = 2; i < job.flags.size(); ++i) job.plan += " " + shell_word(job.flags[i]);  // without --batch
}

// A job has its command on a line.
void refuse_line_breaks(const std::string& word) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' '; };
  if (std::ranges::any_of(word, is_control))
    throw Error("--emit: a job's command cannot hold a line break or a control character", ErrorKind::usage)
        .help("rename the model's file");
}

}  // namespace

Engine engine_of(const FitOptions& options) {
  if (options.emit.empty()) return Engine::none;
  for (const char* target : {"torchrun", "torchtitan", "deepspeed", "megatron"})
    if (options.emit == target)
      throw Error("fit --emit writes a job that rents GPUs, and " + options.emit + " is none", ErrorKind::usage)
          .help("gpuplan plan MODEL $(gpuplan fit MODEL ... -q) --emit " + options.emit);
  const Engine engine = choose<Engine>("--emit", options.emit, {{"sky", Engine::sky}, {"slurm", Engine::slurm}});
  if (!options.output.format.empty() || options.output.quiet)
    throw Error("--emit writes a job: leave --format and -q out", ErrorKind::usage);
  if (is_stream(options.run.model))
    throw Error("--emit: a job cannot read " + called(options.run.model) + "; put the model into a file",
                ErrorKind::usage);
  for (const std::string& word : run_words(options.run)) refuse_line_breaks(word);
  refuse_line_breaks(options.run.model);
  if (size_in_bytes(options.run.gpu))
    throw Error("--emit: a job needs a kind of GPU, not a size", ErrorKind::usage).help("--on t4,l4, or all of them");
  return engine;
}

std::vector<std::string> take_job_files(OutputOptions& output, Engine engine) {
  std::vector<std::string> files;
  if (engine == Engine::none) return files;
  const auto is_job = [&](const std::string& name) {
    const auto ends = [&](const char* ending) { return name.ends_with(ending); };
    return engine == Engine::sky ? ends(".yaml") || ends(".yml") : ends(".sh") || ends(".sbatch") || ends(".slurm");
  };
  std::ranges::copy_if(output.files, std::back_inserter(files), is_job);
  std::erase_if(output.files, is_job);
  for (const std::string& file : files) refuse_to_replace("-o", file, output.force);
  return files;
}

int emit_job(const FitAnswer& answer, const FitOptions& options, Engine engine, std::span<const std::string> files) {
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
  if (job.needs_file) job.model = std::filesystem::absolute(job.model).lexically_normal().string();
  if (job.needs_file && engine == Engine::sky && answer.model_files > 1 && !chosen.strategy.shares())
    throw Error("--emit sky: the model extends other files, which the task would not mount", ErrorKind::usage)
        .help("gpuplan " + options.run.model + " --canonical prints it as one");
  job.flags = {"--batch", std::to_string(batch_of(chosen, report.question))};
  const std::vector<std::string> words = run_words(options.run);
  job.flags.insert(job.flags.end(), words.begin(), words.end());
  job.gpu = chosen.gpu.name;
  job.spot = options.spot;
  if (chosen.strategy.shares())
    share(answer, chosen, engine, job);
  else
    job.instances = instances_to_try(answer, chosen);
  if (engine == Engine::sky && job.instances.empty())
    throw Error(job.nodes > 1 ? "--emit sky: SkyPilot does not join instances of this cloud"
                              : "--emit sky: SkyPilot offers no instance that fits")
        .help("choose another --provider, --region or --on; gpuplan instances lists all instances");
  const std::string text = engine == Engine::sky ? sky_task(job) : slurm_script(job);
  for (const std::string& file : files) write_report({.path = file, .force = options.output.force}, text);
  if (files.empty()) write_stdout(text);
  return 0;
}

}  // namespace gpuplan
