#include "tools/answers/shared_planning.h"

#include "estimator/distributed/tensor_plan.h"
#include "tools/options/commit_model.h"
#include "tools/options/pipeline_schedule.h"
#include "tools/python_models/python_model.h"

namespace gpuplan {
namespace {

// Whether --tp shares its layers as transformers does; else it is planned by Megatron's formulas. Experts are not
// shared with sequence parallelism.
bool shares_layers_of(const RunOptions& options, const TensorPlan& plan) {
  if (python_code(options.model) != PythonCode::none) return false;
  const WrittenModel written = open_model(options);
  const Model model = read_model(written.source, written.options);
  return has_tensor_plan(model) && !(plan.sequence && has_experts(model));
}

}  // namespace

Sharing sharing_of(const RunOptions& run, const std::optional<Strategy>& strategy) {
  if (!strategy || strategy->tensor * strategy->pipeline == 1 || strategy->is_megatron()) return Sharing::ranks;
  const bool layers = strategy->tensor > 1 && shares_layers_of(run, strategy->tensor_plan);
  if (strategy->tensor_plan.sequence && !layers)
    throw Error("sequence parallelism is planned of dense decoders that transformers shares", ErrorKind::usage)
        .help("of Llama, Mistral, Qwen and Gemma; --tp " + std::to_string(strategy->tensor) +
              " alone plans Mixtral and Qwen3-MoE, and a GPT by Megatron-LM's formulas");
  if (strategy->runs_stages() && strategy->tensor > 1 && !layers)
    throw Error("--tp with --pp-schedule is planned of decoders that transformers shares", ErrorKind::usage)
        .help("of Llama, Mistral, Mixtral, Qwen and Gemma; leave out --tp");
  if (strategy->runs_stages()) return Sharing::stages;
  return strategy->pipeline == 1 && layers ? Sharing::layers : Sharing::formulas;
}

Strategy in_mode(Strategy strategy, Mode mode, const SeveralGpusOptions& several) {
  if (strategy.context > 1 && mode == Mode::infer && several.zero.empty() && several.fsdp.empty())
    strategy.data = DataParallel::none;
  return strategy;
}

SharedPlanning prepare_shared(const RunOptions& run, const SeveralGpusOptions& several) {
  SharedPlanning shared;
  shared.strategy = strategy_of(several);
  const Sharing sharing = sharing_of(run, shared.strategy);
  const bool layers = sharing == Sharing::layers || sharing == Sharing::stages;
  // The spec that --megatron makes is a rank's part.
  const bool is_part = shared.strategy && shared.strategy->is_megatron();
  shared.planning = prepare_rank(run, {.tensor = layers ? shared.strategy->tensor : 1,
                                       .context = shared.strategy && !is_part ? shared.strategy->context : 1});
  if (is_part) shared.planning.run.tensor_ranks = shared.strategy->tensor;
  if (shared.planning.run.mode == Mode::infer && (several.bucket_view || several.find_unused))
    throw Error(std::string(several.bucket_view ? "--bucket-view" : "--find-unused-parameters") +
                    " is of gradients, and inference has none",
                ErrorKind::usage)
        .help("leave it out");
  if (shared.strategy) shared.strategy = in_mode(*shared.strategy, shared.planning.run.mode, several);
  const GivenFlags given{!several.zero.empty() || !several.fsdp.empty(), !run.optimizer_impl.empty()};
  if (layers && shared.strategy->tensor > 1)
    shared.strategy = with_shared_layers(*shared.strategy, given, shared.planning.run);
  if (sharing == Sharing::stages)
    shared.strategy = with_stages(*shared.strategy, given.data_parallel, !run.loop.empty());
  return shared;
}

}  // namespace gpuplan
