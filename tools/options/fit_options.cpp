#include "tools/options/fit_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "tools/options/money.h"
#include "tools/options/several_gpus.h"
#include "tools/options/words.h"

namespace gpuplan {
namespace {

std::vector<std::int64_t> numbers_of_gpus(const std::vector<std::string>& words) {
  std::vector<std::int64_t> numbers;
  for (const std::string& word : words) {
    if (word == "any") throw Error("--gpus any stands alone: it is every number that instances have", ErrorKind::usage);
    numbers.push_back(whole_number("--gpus", word, 1, kMostGpus));
    if (std::ranges::count(numbers, numbers.back()) > 1) throw Error("--gpus has " + word + " twice", ErrorKind::usage);
  }
  return numbers;
}

// --gpus, --zero and what belongs to them.
void read_several_gpus(const FitOptions& options, FitQuestion& question) {
  const std::pair<const char*, bool> about_several[] = {{"--zero", !options.zero.empty()},
                                                        {"--network", !options.network.empty()},
                                                        {"--wrap", !options.wrap.empty()},
                                                        {"--find-unused-parameters", options.find_unused}};
  for (const auto& [flag, given] : about_several)
    if (given && options.gpus.empty())
      throw Error(std::string(flag) + " is about several GPUs", ErrorKind::usage).help("--gpus 1,2,4,8, or --gpus any");
  if (options.gpus == std::vector<std::string>{"any"})
    question.gpus.clear();
  else if (!options.gpus.empty())
    question.gpus = numbers_of_gpus(options.gpus);
  question.one_alone = options.gpus.empty();
  for (const std::string& word : options.zero) {
    const DataParallel kind = data_parallel_kind(word);
    if (std::ranges::find(question.kinds, kind) != question.kinds.end())
      throw Error("--zero has " + word + " twice", ErrorKind::usage);
    question.kinds.push_back(kind);
  }
  question.uses_idle = options.gpus.empty() && options.emit.empty() && question.run.mode == Mode::train;
  question.strategy.unit_glob = options.wrap;
  question.strategy.find_unused_parameters = options.find_unused;
  const bool shards =
      question.kinds.empty() || std::ranges::find(question.kinds, DataParallel::fsdp) != question.kinds.end();
  if (!options.wrap.empty() && !shards) throw Error("--wrap is FSDP2's", ErrorKind::usage).help("--zero fsdp");
  if (!options.network.empty()) question.network_gbps = amount("--network", options.network, 1e6);
}

}  // namespace

void add_fit_options(CLI::App& command, FitOptions& options) {
  add_run_options(command, options.run);
  add_margin_option(command, options.run);
  const char* const question = "What is asked";
  command.add_option("--on", options.on, "Of these GPUs, with commas (all)")
      ->delimiter(',')
      ->type_name("GPU")
      ->group(question);
  const auto add = [&](const char* names, std::string& value, const char* type, const char* text) {
    command.add_option(names, value, text)->type_name(type)->group(question);
  };
  command
      .add_option(
          "--gpus", options.gpus,
          "So many of a kind share a step, with commas; any: as many as instances have; 1 is DDP with one process")
      ->delimiter(',')
      ->type_name("N|any")
      ->group(question);
  command.add_option("--zero", options.zero, "How they do; else DDP, and FSDP2 where that does not fit")
      ->delimiter(',')
      ->type_name("ddp|1|2|3|fsdp")
      ->group(question);
  command.add_flag("--find-unused-parameters", options.find_unused, "DDP's, for parameters that get no gradient")
      ->group(question);
  add("--wrap", options.wrap, "GLOB", "Blocks that fully_shard is called on; else those of every repeat");
  add("--network", options.network, "GBPS", "Of an instance, Gbit/s in one direction; else as it is said to have");
  command
      .add_option("--max-batch", options.max_batch,
                  "The largest batch of each, which is the default; with N none above")
      ->expected(0, 1)
      ->type_name("[N]")
      ->group(question);
  command.add_option("--provider", options.providers, "Rented from this cloud; several with commas")
      ->delimiter(',')
      ->type_name("NAME")
      ->group(question);
  add("--region", options.region, "NAME", "Rented in this region");
  command.add_flag("--spot", options.spot, "At the price of preemptible instances")->group(question);
  add("--budget", options.budget, "AMOUNT", "An hour of the instance costs no more, as in 5usd/h");
  add("--samples", options.samples, "N", "Of an epoch, as in 1.28M: how long it takes and what it costs");
  add("--epochs", options.epochs, "N", "Of the run");
  add("--prices", options.prices, "FILE", "Instances of this file, as gpuplan instances import writes it");
  add("--emit", options.emit, "sky|slurm",
      "Prints a job that validates the chosen one, or of several GPUs runs your script: SkyPilot's task, or sbatch's");
  add_output_options(command, options.output);
}

namespace {

// "16 GiB" is "16GiB".
std::string without_spaces(std::string name) {
  std::erase(name, ' ');
  return name;
}

}  // namespace

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
    const auto same = [&](const Gpu& other) { return without_spaces(other.name) == without_spaces(gpus.back().name); };
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
  if (!options.samples.empty()) question.samples = whole_amount("--samples", options.samples, 1e12);
  if (question.samples && question.run.generation.part != Generation::Part::none)
    throw Error("--samples: a step of a generation makes a token of each sample, not samples", ErrorKind::usage)
        .help("leave --phase out, or --samples");
  if (!options.run.margin.empty())
    question.margin = static_cast<double>(percentage("--margin", options.run.margin)) / 1e4;
  if (!options.epochs.empty()) {
    if (!question.samples) throw Error("--epochs says how often --samples are seen: give both", ErrorKind::usage);
    question.epochs = amount("--epochs", options.epochs, 1e6);
  }
  read_several_gpus(options, question);
  question.spot = options.spot;
  question.providers = options.providers;
  question.region = options.region;
  return question;
}

}  // namespace gpuplan
