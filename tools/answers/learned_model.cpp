#include "tools/answers/learned_model.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "tools/options/commit_model.h"
#include "tools/options/run_words.h"
#include "tools/process/streams.h"
#include "tools/python_models/python_model.h"

namespace gpuplan {
namespace {

// The GPU of a plan without --gpu, whose name the simulation has.
constexpr const char* kSimulated = "a100-80gb";
// What a trace is planned with.
constexpr std::array<std::string_view, 2> kOfTheTrace = {"--runtime", "--alloc-conf"};

LearnedStep step_of(const RunOptions& o) {
  LearnedStep step{.mode = o.mode,
                   .optimizer = o.optimizer,
                   .amp = o.amp,
                   .precision = o.precision,
                   .channels_last = o.layout == "nhwc",
                   .gpu = kSimulated};
  if (const std::optional<Gpu> gpu = gpu_called(o.gpu)) step.gpu = gpu->name;
  return step;
}

void refuse_other_flags(const RunOptions& flags) {
  for (const std::string& word : run_words(flags)) {
    const std::string name = word.substr(0, word.find('='));
    if (!name.starts_with("--") || std::ranges::find(kOfTheTrace, name) != kOfTheTrace.end()) continue;
    throw Error(name + ": " + flags.model + " cannot be exported, and its own step is not told it", ErrorKind::usage)
        .help("it takes --batch, --opt, --amp, --precision, --layout, --mode and --gpu");
  }
}

// A trace refuses what it is not asked: what the step was told is left out.
RunOptions of_trace(const RunOptions& options, const std::string& trace) {
  RunOptions flags = options;
  for (std::string* told : {&flags.mode, &flags.optimizer, &flags.amp, &flags.precision, &flags.layout}) told->clear();
  flags.inputs.clear();
  flags.arguments.clear();
  refuse_other_flags(flags);
  flags.model = trace;
  return flags;
}

void say_why(const RunOptions& options, const std::string& why) {
  write_stderr("warning: " + options.model + " cannot be exported" + why + ": its own step was learned, at batch " +
               std::string(kLearnedBatches) + "\n");
}

}  // namespace

std::optional<RunOptions> learned_instead(const RunOptions& options, bool wanted) {
  if (python_code(options.model) == PythonCode::none) {
    if (wanted && !options.model.empty())
      throw Error("--learn is for a model in Python, not for " + options.model, ErrorKind::usage)
          .help("gpuplan shadow --learn learns a script's step");
    return std::nullopt;
  }
  refuse_untrusted_code(options);
  const PythonModel model{options.model, options.inputs, options.arguments};
  (void)run_config(options);  // every flag is understood before code runs
  const LearnedStep step = step_of(options);
  if (wanted) return of_trace(options, learned_step(model, step));
  std::string why;
  try {
    if (!is_step_remembered(model, step)) {
      (void)open_model(options);
      return std::nullopt;
    }
  } catch (const Error& refusal) {
    if (refusal.kind() != ErrorKind::input) throw;
    why = " (" + refusal.message() + ")";
    try {
      (void)learned_step(model, step);
    } catch (const Error& failed) {
      throw Error(refusal).help("its own step does not run on a simulated GPU either: " + failed.message());
    }
  }
  say_why(options, why);
  return of_trace(options, learned_step(model, step));
}

}  // namespace gpuplan
