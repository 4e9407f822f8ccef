#include "tools/answers/learned_model.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "estimator/spec/read.h"
#include "tools/options/commit_model.h"
#include "tools/options/python_step.h"
#include "tools/options/run_words.h"
#include "tools/process/streams.h"
#include "tools/python_models/python_model.h"

namespace gpuplan {
namespace {

// What a trace is planned with.
constexpr std::array<std::string_view, 2> kOfTheTrace = {"--runtime", "--alloc-conf"};
// How the reason of a refusal begins; that of a spec that differs does not.
constexpr std::string_view kNotExported = "cannot be exported: ";

void refuse_other_flags(const RunOptions& flags) {
  for (const std::string& word : run_words(flags)) {
    const std::string name = word.substr(0, word.find('='));
    if (!name.starts_with("--") || std::ranges::find(kOfTheTrace, name) != kOfTheTrace.end()) continue;
    throw Error(name + ": " + flags.model + " is planned from its own step, which does not take this flag",
                ErrorKind::usage)
        .help("it takes --batch, --opt, --amp, --precision, --layout, --mode and --gpu");
  }
}

void refuse_other_optimizers(const RunOptions& options) {
  if (!run_config(options).optimizer.bitsandbytes) return;
  throw Error("--opt " + options.optimizer + ": " + options.model +
                  " is planned from its own step, which takes torch.optim's optimizers",
              ErrorKind::usage)
      .help("--no-learn plans the spec, where the model has one; gpuplan shadow -- python train.py runs a script");
}

// A trace, whose path is yet to be set, refuses what it is not asked: what the step was told is left out.
RunOptions of_trace(const RunOptions& options) {
  refuse_other_optimizers(options);
  RunOptions flags = options;
  for (std::string* told : {&flags.mode, &flags.optimizer, &flags.amp, &flags.precision, &flags.layout}) told->clear();
  std::vector<Variable> variables = variables_of(options);
  (void)python_model(options, variables);
  flags.set.clear();
  flags.seq.clear();
  for (const Variable& v : variables) flags.set.push_back(v.name + "=" + std::to_string(v.value));
  flags.inputs.clear();
  flags.arguments.clear();
  refuse_other_flags(flags);
  return flags;
}

// Why the spec is not what is planned; empty: it is.
struct Reason {
  std::string why;
  std::optional<Error> refusal;  // of an export that was tried now
};

Reason why_not_the_spec(const RunOptions& options) {
  try {
    const WrittenModel written = open_model(options);
    for (const Mismatch& difference : read_model(written.source, written.options).differs)
      if (difference.mode == run_config(options).mode) return {"its spec is " + difference.text, std::nullopt};
    return {};
  } catch (const Error& refusal) {
    if (refusal.kind() != ErrorKind::input) throw;
    return {std::string(kNotExported) + refusal.message(), refusal};
  }
}

void say_why(const RunOptions& options, const std::string& why) {
  const bool has_spec = !why.starts_with(kNotExported);
  write_stderr("warning: " + options.model + (has_spec ? ": " : " ") + why + "; its own step was learned, at batch " +
               std::string(kLearnedBatches) +
               (has_spec ? ". --no-learn plans the spec, with FLOPs, layers and time\n" : "\n"));
}

// Nothing where a spec that differs is better than no plan.
std::optional<RunOptions> learned_for(const RunOptions& options, const PythonModel& model, const Reason& reason) {
  const std::string& why = reason.why;
  const ModelStep step = python_step(options);
  const bool has_spec = !why.starts_with(kNotExported);
  try {
    RunOptions flags = of_trace(options);
    if (why_learned(model, step).empty()) plan_learned_step(model, step, why);
    flags.model = learned_step(model, step);
    say_why(options, why);
    return flags;
  } catch (const Error& failed) {
    if (has_spec) return std::nullopt;
    if (failed.kind() == ErrorKind::usage) throw;
    Error refusal = reason.refusal ? Error(*reason.refusal) : Error(options.model + ' ' + why);
    throw Error(refusal.help("its own step does not run on a simulated GPU either: " + failed.message()));
  }
}

}  // namespace

std::optional<RunOptions> learned_instead(const RunOptions& options, Learning learning) {
  if (python_code(options.model) == PythonCode::none) {
    if (learning != Learning::by_itself && !options.model.empty())
      throw Error(std::string(learning == Learning::always ? "--learn" : "--no-learn") +
                      " is for a model in Python, not for " + options.model,
                  ErrorKind::usage)
          .help("gpuplan shadow --learn learns a script's step");
    return std::nullopt;
  }
  refuse_untrusted_code(options);
  std::vector<Variable> variables = variables_of(options);
  const PythonModel model = python_model(options, variables);
  (void)run_config(options);  // every flag is understood before code runs
  if (learning == Learning::never) return std::nullopt;
  const ModelStep step = python_step(options);
  if (learning == Learning::always) {
    RunOptions flags = of_trace(options);  // before the step is learned, which takes seconds
    flags.model = learned_step(model, step);
    return flags;
  }
  Reason reason{why_learned(model, step), std::nullopt};
  if (reason.why.empty()) reason = why_not_the_spec(options);
  if (reason.why.empty()) return std::nullopt;
  return learned_for(options, model, reason);
}

}  // namespace gpuplan
