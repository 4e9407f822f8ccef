#include "tools/options/fit_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "estimator/base/integers.h"
#include "tools/options/money.h"
#include "tools/options/several_gpus.h"
#include "tools/options/words.h"

namespace gpuplan {
namespace {

std::vector<std::int64_t> numbers_of_gpus(const std::vector<std::string>& words) {
  std::vector<std::int64_t> numbers;
  for (const std::string& word : words) {
    if (word == "any")
      throw Error("--gpus any cannot be combined with numbers: it means every count that instances have",
                  ErrorKind::usage);
    numbers.push_back(whole_number("--gpus", word, 1, kMostGpus));
    if (std::ranges::count(numbers, numbers.back()) > 1) throw Error("--gpus has " + word + " twice", ErrorKind::usage);
  }
  return numbers;
}

// Of each number of GPUs that they divide.
void share_experts(const FitOptions& options, FitQuestion& question) {
  if (question.kinds.empty()) question.kinds = {DataParallel::fsdp};
  if (question.kinds != std::vector{DataParallel::fsdp})
    throw Error("--ep is planned with FSDP2, and --zero asks for others", ErrorKind::usage).help("--zero fsdp");
  const std::int64_t ranks =
      checked_mul(whole_number("--ep", options.experts, 1, kMostGpus), question.strategy.replicas);
  for (const std::int64_t gpus : question.gpus)
    if (gpus % ranks != 0)
      throw Error(
          "--ep " + options.experts + " does not divide the " + std::to_string(gpus) + " GPUs that share the model",
          ErrorKind::usage);
  SeveralGpusOptions shared;
  shared.gpus = std::to_string(ranks);
  shared.zero = "fsdp";
  shared.wrap = options.wrap;
  shared.fsdp = options.fsdp;
  shared.experts = options.experts;
  const Strategy strategy = *strategy_of(shared);
  question.strategy.experts = strategy.experts;
  question.strategy.wraps_ends = strategy.wraps_ends;
}

// --gpus, --zero and what belongs to them.
void read_several_gpus(const FitOptions& options, FitQuestion& question) {
  const std::pair<const char*, bool> about_several[] = {
      {"--zero", !options.zero.empty()},  {"--network", !options.network.empty()},
      {"--wrap", !options.wrap.empty()},  {"--fsdp", !options.fsdp.empty()},
      {"--ep", !options.experts.empty()}, {"--find-unused-parameters", options.find_unused}};
  for (const auto& [flag, given] : about_several)
    if (given && options.gpus.empty())
      throw Error(std::string(flag) + " needs --gpus", ErrorKind::usage)
          .help("for example --gpus 1,2,4,8, or --gpus any");
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
  if (!options.fsdp.empty()) {
    if (question.kinds.empty()) question.kinds = {DataParallel::fsdp};
    if (question.kinds != std::vector{DataParallel::fsdp})
      throw Error("--fsdp is FSDP2, and --zero asks for others", ErrorKind::usage).help("--zero fsdp");
    SeveralGpusOptions sharded;
    sharded.wrap = options.wrap;
    sharded.fsdp = options.fsdp;
    read_fsdp(sharded, question.strategy);
    if (question.strategy.flat)
      throw Error("fit plans offers with FSDP2, and --fsdp version=1 says FSDP1", ErrorKind::usage)
          .help("leave out version=1; plan --gpus N --fsdp version=1 plans one of them");
  }
  if (!options.experts.empty()) share_experts(options, question);
  question.strategy.find_unused_parameters = options.find_unused;
  const bool shards =
      question.kinds.empty() || std::ranges::find(question.kinds, DataParallel::fsdp) != question.kinds.end();
  if (!options.wrap.empty() && !shards) throw Error("--wrap needs FSDP2", ErrorKind::usage).help("--zero fsdp");
  if (!options.network.empty()) question.network_gbps = amount("--network", options.network, 1e6);
}

}  // namespace

void add_fit_options(CLI::App& command, FitOptions& options) {
  add_run_options(command, options.run);
  add_margin_option(command, options.run);
  const char* const question = "Search";
  command.add_option("--on", options.on, "GPUs to consider, comma-separated (all)")
      ->delimiter(',')
      ->type_name("GPU")
      ->group(question);
  const auto add = [&](const char* names, std::string& value, const char* type, const char* text) {
    command.add_option(names, value, text)->type_name(type)->group(question);
  };
  command
      .add_option("--gpus", options.gpus,
                  "GPUs of one kind that share a step, comma-separated; any: every count that instances have; 1: DDP, "
                  "one process")
      ->delimiter(',')
      ->type_name("N|any")
      ->group(question);
  command.add_option("--zero", options.zero, "How they share it, comma-separated (ddp; fsdp where ddp does not fit)")
      ->delimiter(',')
      ->type_name("ddp|1|2|3|fsdp")
      ->group(question);
  command
      .add_flag("--find-unused-parameters", options.find_unused,
                "DDP's find_unused_parameters, for parameters that get no gradient")
      ->group(question);
  add("--fsdp", options.fsdp, "KEY=VALUE,...", kFsdpHelp);
  add("--ep", options.experts, "N",
      "Expert parallelism: ranks of FSDP2 that have some of the experts each, as transformers does it");
  add("--wrap", options.wrap, "GLOB", "Blocks to call fully_shard on (the blocks of every repeat)");
  add("--network", options.network, "GBPS", "Network bandwidth of an instance: Gbit/s in one direction (as published)");
  command.add_option("--max-batch", options.max_batch, "Finds the largest batch of each GPU (the default), up to N")
      ->expected(0, 1)
      ->type_name("[N]")
      ->group(question);
  add("--solve", options.solve, "seq|batch|rank|layers|micro-batches|set.NAME",
      "Finds the largest value of this number that fits each GPU, of micro-batches the fewest, at the given batch");
  command
      .add_option(
          "--may", options.may,
          "Finds the fastest combination of these changes that fits --gpu, at the given batch: amp, checkpoint, "
          "lora, nf4, 8bit, liger, offload, micro-batches; mesh, with --gpus N: how they share the step (DDP, FSDP2, "
          "tensor and expert parallelism, pipelines), and with --gpus any: which GPUs to rent for it")
      ->delimiter(',')
      ->type_name("CHANGE,...")
      ->group(question);
  add("--shard", options.shard, "N/COUNT", "With --may: plans only this part of what is asked, such as 1/16");
  command.add_option("--join", options.join, "Puts parts of --shard together, each in --format json")
      ->expected(1, 1 << 20)
      ->type_name("FILE...")
      ->group(question);
  command.add_option("--provider", options.providers, "Only instances of these clouds, comma-separated")
      ->delimiter(',')
      ->type_name("NAME")
      ->group(question);
  add("--region", options.region, "NAME", "Only instances in this region");
  command.add_flag("--spot", options.spot, "Uses prices of preemptible instances")->group(question);
  add("--budget", options.budget, "AMOUNT", "Largest price of an instance, such as 5usd/h");
  add("--samples", options.samples, "N", "Samples per epoch, such as 1.28M: adds an epoch's time and cost");
  add("--epochs", options.epochs, "N", "Epochs of the run, with --samples (1)");
  add("--prices", options.prices, "FILE", "Uses this file, written by gpuplan instances import");
  add("--emit", options.emit, "sky|slurm",
      "Prints a SkyPilot task or an sbatch script: it validates the chosen GPU, or runs your script on several");
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
    throw Error("--on and --gpu both name GPUs: give only one of them", ErrorKind::usage);
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
      throw Error("how much memory " + gpus.back().title + " has is not known: its file has no memory_mib");
  }
  return gpus;
}

FitQuestion question_of(const FitOptions& options) {
  FitQuestion question;
  RunOptions run = options.run;
  if (run.batch.empty()) run.batch = run.micro_batches;  // the smallest that splits into them
  question.run = run_config(run);
  if (question.run.allocator != AllocatorKind::caching)
    throw Error("--allocator: fit always uses PyTorch's caching allocator", ErrorKind::usage);
  if (!options.run.batch.empty()) question.batch = question.run.batch;
  if (!options.max_batch.empty()) question.most = whole_number("--max-batch", options.max_batch, 1, question.most);
  if (question.batch && *question.batch > question.most)
    throw Error("--batch " + options.run.batch + " is more than --max-batch " + options.max_batch, ErrorKind::usage);
  if (question.run.micro_batches > question.most)
    throw Error("--max-batch " + options.max_batch + " is less than a sample for each micro-batch", ErrorKind::usage);
  if (!options.budget.empty()) question.most_usd = usd_per_hour("--budget", options.budget);
  if (!options.samples.empty()) question.samples = whole_amount("--samples", options.samples, 1e12);
  if (question.samples && question.run.generation.part != Generation::Part::none)
    throw Error("--samples: a generation step produces one token per sample, so there are no samples per second",
                ErrorKind::usage)
        .help("leave --phase out, or --samples");
  if (!options.run.margin.empty())
    question.margin = static_cast<double>(percentage("--margin", options.run.margin)) / 1e4;
  if (!options.epochs.empty()) {
    if (!question.samples) throw Error("--epochs repeats --samples: give both", ErrorKind::usage);
    question.epochs = amount("--epochs", options.epochs, 1e6);
  }
  read_several_gpus(options, question);
  question.spot = options.spot;
  question.providers = options.providers;
  question.region = options.region;
  return question;
}

}  // namespace gpuplan
