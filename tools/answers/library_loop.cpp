#include "tools/answers/library_loop.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "estimator/base/format.h"
#include "estimator/base/list_text.h"
#include "estimator/plan/run_names.h"
#include "tools/answers/library_ranks.h"
#include "tools/answers/trace_plan.h"
#include "tools/options/learned_trace_input.h"
#include "tools/options/library_words.h"
#include "tools/options/python_step.h"
#include "tools/options/run_words.h"
#include "tools/options/words.h"
#include "tools/process/read_source.h"
#include "tools/process/streams.h"
#include "tools/python_models/interpreter.h"
#include "tools/python_models/python_model.h"
#include "tools/python_models/remembered.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 7> kLoops = {"pytorch", "trainer",   "lightning", "trl-sft",
                                                    "trl-dpo", "torchtune", "infer"};
// What a trace is planned with.
constexpr std::array<std::string_view, 2> kOfTrace = {"--runtime", "--alloc-conf"};
constexpr const char* kUsualTokens = "1024";  // max_length of trl.SFTConfig and DPOConfig
constexpr std::int64_t kMostTokensOfSample = 10'000'000;

// transformers.training_args.OptimizerNames, by the names that --opt takes; others are called the same.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kOptimizers = {
    {{"adamw", "adamw_torch"},
     {"adamw8bit", "adamw_8bit"},
     {"paged_adamw8bit", "paged_adamw_8bit"},
     {"paged_adamw32bit", "paged_adamw_32bit"},
     {"lion", "lion_32bit"},
     {"lion8bit", "lion_8bit"},
     {"paged_lion8bit", "paged_lion_8bit"}}};

// PyTorch's, by --opt's names.
bool has_own_optimizers(const std::string& loop) { return loop == "pytorch" || loop == "lightning"; }

std::string transformers_name(const std::string& optimizer) {
  const auto known =
      std::ranges::find(kOptimizers, std::string_view(optimizer), &decltype(kOptimizers)::value_type::first);
  return known == kOptimizers.end() ? optimizer : std::string(known->second);
}

bool infers(const RunOptions& o) { return o.mode == "infer"; }
// trl-sft, of trl-sft(packing=True), whose settings are those of the library's configuration.
std::string loop_of(const RunOptions& o) {
  return !o.like.empty() ? o.like.substr(0, o.like.find('(')) : infers(o) ? "infer" : "pytorch";
}

// config.json or its folder, or FILE.py:CALLABLE.
std::string model_word(const RunOptions& options) {
  if (!python_file(options.model).empty()) return options.model;
  std::error_code none;
  const fs::path model(options.model);
  const bool is_config = model.extension() == ".json" || fs::is_directory(model, none);
  if (!is_config || !exists(fs::is_directory(model, none) ? model / "config.json" : model))
    throw Error(library_asked(options) + " runs the library's code, on a model of transformers", ErrorKind::usage)
        .help("a config.json or its folder, or FILE.py:CALLABLE of code that makes the model");
  return fs::absolute(model).string();
}

std::int64_t tokens_of_sample(const RunOptions& o) {
  return whole_number("--seq", o.seq.empty() ? kUsualTokens : o.seq, 1, kMostTokensOfSample);
}

Error not_told(const RunOptions& o, const std::string& flag, const std::string& help) {
  return Error(flag + " with " + library_asked(o) + ": the library's code is not told of it", ErrorKind::usage)
      .help(help);
}

// Values of flags that the library has no word for.
void refuse_other_values(const RunOptions& o, const RunConfig& run) {
  using Kind = CheckpointConfig::Kind;
  if (run.checkpoint.kind == Kind::every || run.checkpoint.kind == Kind::glob || run.checkpoint.kind == Kind::op)
    throw not_told(o, "--checkpoint " + o.checkpoint, "--checkpoint none, block or block,reentrant");
  if (!o.weights.empty() && !is_library_form(o.weights) && !is_bitsandbytes(run.weights))
    throw not_told(o, "--weights " + o.weights,
                   "--weights nf4, fp4, nf4:double, fp4:double, int8, int4:torchao, int8:torchao, fp8:torchao, "
                   "int4:hqq, int8:hqq, int4:gptq, int4:awq, or a configuration of transformers'");
  const std::array<std::string_view, 4> precisions = {"", "fp32", "bf16", "fp16"};
  if (std::ranges::find(precisions, o.precision) == precisions.end())
    throw not_told(o, "--precision " + o.precision, "--precision fp32, bf16 or fp16");
}

// gpuplan.library_loops' Loop.
std::string settings_of(const RunOptions& o, const RunConfig& run, const std::optional<LibraryRanks>& ranks) {
  nlohmann::ordered_json json = {
      {"like", loop_of(o)},
      {"seq", tokens_of_sample(o)},
      {"micro_batches", run.micro_batches},
      {"amp", o.amp},
      {"precision", o.precision},
      {"checkpoint", o.checkpoint},
      {"optimizer", has_own_optimizers(loop_of(o)) ? o.optimizer : transformers_name(o.optimizer)},
      {"weights", o.weights},
      {"like_text", o.like},
      {"peft", o.peft}};
  if (run.lora)
    json["lora"] = {{"r", run.lora->rank},    {"alpha", run.lora->alpha},     {"dropout", run.lora->dropout},
                    {"dora", run.lora->dora}, {"targets", run.lora->targets}, {"save", run.lora->saved}};
  if (ranks) json["gpus"] = nlohmann::ordered_json::parse(ranks->settings);
  return json.dump();
}

// "trl's SFTTrainer of config.json, samples of 1,024 tokens, --amp bf16, and its defaults"
std::string words_of_loop(const RunOptions& o, const std::optional<LibraryRanks>& ranks) {
  const std::string loop = loop_of(o);
  const std::size_t settings = o.like.find('(');
  std::string text = (loop == "trl-dpo"     ? "trl's DPOTrainer of "
                      : loop == "trl-sft"   ? "trl's SFTTrainer of "
                      : loop == "trainer"   ? "transformers' Trainer of "
                      : loop == "lightning" ? "Lightning's Trainer of "
                      : loop == "infer"     ? "forwards of "
                      : loop == "torchtune" ? "torchtune's recipe for one GPU of "
                                            : "steps of ") +
                     o.model + ", samples of " + (o.seq.empty() ? kUsualTokens : o.seq) + " tokens";
  for (const auto& [flag, value] : {std::pair{"--peft ", &o.peft},
                                    {"--lora ", &o.lora},
                                    {"--weights ", &o.weights},
                                    {"--amp ", &o.amp},
                                    {"--precision ", &o.precision},
                                    {"--checkpoint ", &o.checkpoint},
                                    {"--opt ", &o.optimizer},
                                    {"--micro-batches ", &o.micro_batches}})
    if (!value->empty()) text += std::string(", ") + flag + *value;
  if (!o.weights.empty() && o.precision.empty()) text += ", the rest in bf16";
  if (ranks) text += ", " + ranks->words;
  if (settings != std::string::npos) text += ", " + o.like.substr(settings);
  return loop == "pytorch" || loop == "infer" ? text : text + ", and its defaults";
}

// What the trainer is told, taken out.
RunOptions of_the_trace(const RunOptions& options) {
  RunOptions flags = options;
  for (std::string* told : {&flags.mode, &flags.optimizer, &flags.amp, &flags.precision, &flags.lora, &flags.weights,
                            &flags.checkpoint, &flags.micro_batches, &flags.seq, &flags.like, &flags.peft})
    told->clear();
  for (const std::string& word : run_words(flags)) {
    const std::string name = word.substr(0, word.find('='));
    if (name.starts_with("--") && std::ranges::find(kOfTrace, name) == kOfTrace.end())
      throw not_told(options, name,
                     "it takes --batch, --seq, --lora, --peft, --weights, --amp, --precision, --checkpoint, --opt, "
                     "--micro-batches, --gpus and --gpu");
  }
  return flags;
}

void refuse_uneven(const RunConfig& run, const LibraryRanks& ranks) {
  const std::int64_t gpus = ranks.strategy.gpus, parts = gpus * run.micro_batches;
  if (ranks.strategy.reduces_last && run.micro_batches == 1)
    throw Error("--fsdp sync=last says which micro-batch reduces gradients, and there is one", ErrorKind::usage)
        .help("--micro-batches 4");
  if (run.batch % parts == 0) return;
  throw Error("a batch of " + std::to_string(run.batch) + " cannot be divided equally among " + std::to_string(gpus) +
                  " GPUs" +
                  (run.micro_batches > 1 ? " of " + std::to_string(run.micro_batches) + " micro-batches" : ""),
              ErrorKind::usage)
      .help("--batch counts all samples of the step; the next possible one is " +
            std::to_string((run.batch / parts + 1) * parts));
}

// The one that is asked for, which the plan then has as it was recorded: losses in chunks are no function of the batch.
std::string batches_of_loop(const RunConfig& run) {
  return std::to_string(run.batch) + "," + std::to_string(2 * run.batch) + "," + std::to_string(3 * run.batch);
}

}  // namespace

std::string library_asked(const RunOptions& o) {
  return !o.peft.empty()              ? "--peft " + o.peft
         : is_library_form(o.weights) ? "--weights " + o.weights
         : o.like.empty()             ? "--lora " + o.lora
                                      : "--like " + o.like;
}

bool is_library_loop(const RunOptions& o) {
  return !o.peft.empty() || is_library_form(o.weights) || is_library_like(o.like) || (infers(o) && !o.lora.empty());
}

// Every flag is understood before code runs.
RunConfig library_config(const RunOptions& options) {
  RunOptions rest = options;
  rest.like.clear();
  rest.peft.clear();
  rest.optimizer.clear();  // the library's names are its own
  if (is_library_form(options.weights)) rest.weights.clear();
  RunConfig run = run_config([&] {
    RunOptions without = rest;
    if (infers(options)) without.lora.clear();
    return without;
  }());
  if (infers(options) && !options.lora.empty()) {
    rest.mode.clear();
    run.lora = run_config(rest).lora;
  }
  return run;
}

RunOptions learned_library_loop(const RunOptions& options, const SeveralGpusOptions& several) {
  RunOptions flags = of_the_trace(options);
  const std::optional<LibraryRanks> ranks = library_ranks(several, loop_of(options), library_asked(options));
  if (std::ranges::find(kLoops, loop_of(options)) == kLoops.end())
    throw Error("--like " + options.like + " is not planned by the library's own code", ErrorKind::usage)
        .help(
            "--like pytorch, trainer, lightning, trl-sft, trl-dpo or torchtune, also with settings: "
            "'trl-sft(packing=True)'");
  if (!options.peft.empty() && !options.lora.empty())
    throw Error("--lora and --peft both say which adapters there are", ErrorKind::usage).help("leave out one of them");
  if (infers(options) && !options.optimizer.empty())
    throw Error("--opt is for training: leave it out with --mode infer", ErrorKind::usage);
  const RunConfig run = library_config(options);
  if (infers(options) != (loop_of(options) == "infer"))
    throw Error("--like " + options.like + (infers(options) ? " is a loop of training" : " is for --mode infer"),
                ErrorKind::usage)
        .help(infers(options) ? "leave out --mode infer" : "--mode infer --like 'infer(merge=True)'");
  refuse_other_values(options, run);
  if (ranks) refuse_uneven(run, *ranks);
  refuse_untrusted_code(options);
  const std::string model = model_word(options), settings = settings_of(options, run, ranks),
                    gpu = python_step(options).gpu;
  const std::string batches = batches_of_loop(run);
  const std::string rank = std::to_string(ranks ? ranks->strategy.rank : 0),
                    gpus = std::to_string(ranks ? ranks->strategy.gpus : 1);
  const Interpreter i = interpreter();
  const fs::path trace =
      remembered_as({model, settings, gpu, batches, rank}, i, InFolder::this_one).replace_extension(".trace");
  std::error_code none;
  if (!fs::is_regular_file(trace, none) || !still_holds(trace)) {
    write_stderr("running three steps with " + library_asked(options) + " by " + i.python + " on a simulated " + gpu +
                 ", once: the result is kept ...\n");
    std::vector<std::string> command = {
        i.program,          "shadow", "--learn", trace.string(), "--vary",
        "batch=" + batches, "--gpu",  gpu,       "--learn-as",   words_of_loop(options, ranks),
        "--world",          gpus,     "--rank",  rank,           "--"};
    const std::vector<std::string> python = python_command(i, "library_loops");
    command.insert(command.end(), python.begin(), python.end());
    command.insert(command.end(), {trace.string() + ".sources", "{batch}", settings, model});
    run_python(i, command);
  }
  flags.model = trace.string();
  return flags;
}

PlannedFigures library_figures(const RunOptions& options, const Gpu* gpu, const SeveralGpusOptions& several) {
  const RunOptions flags = learned_library_loop(options, several);
  return trace_figures(*read_file_source(flags.model, kTraceLimit), flags, gpu);
}

}  // namespace gpuplan
