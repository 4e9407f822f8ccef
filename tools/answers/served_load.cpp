#include "tools/answers/served_load.h"

#include <algorithm>

#include "estimator/base/integers.h"
#include "estimator/serve/cache_pool.h"
#include "estimator/serve/pace.h"
#include "tools/options/instance_input.h"
#include "tools/options/run_options.h"

namespace gpuplan {
namespace {

StepSeconds pace_for(const ServedModel& model, const Gpu& gpu, const ServeSettings& settings) {
  const bool half = gpu.capability_major < 8;
  const char* const form = settings.weights == WeightForm::fp8         ? "fp8"
                           : settings.weights == WeightForm::int4_awq  ? "int4:awq"
                           : settings.weights == WeightForm::int4_gptq ? "int4:gptq"
                                                                       : "bf16";
  PaceSettings pace;
  pace.engine = settings.engine == ServingEngine::sglang ? ServingEngine::vllm : settings.engine;
  pace.weights = stored_weights(pace.engine, form);
  pace.compute = half ? DType::fp16 : DType::bf16;
  pace.cache_element_bytes = settings.fp8_cache ? 1 : 2;
  pace.tensor_ranks = settings.tensor_ranks;
  if (settings.tensor_ranks > 1) pace.link = link_within_node(gpu, settings.tensor_ranks);
  pace.graphs = !settings.eager;
  const std::optional<StepSeconds> seconds = pace_of(model, gpu, pace);
  if (!seconds)
    throw Error("the speed of " + gpu.title + (settings.tensor_ranks > 1 ? " or of its links" : "") + " is not known",
                ErrorKind::usage)
        .help("gpuplan gpus lists what is known");
  return *seconds;
}

// The cheapest that has as many of these GPUs.
std::optional<ServingOffer> offer_of(const Gpu& gpu, std::int64_t ranks) {
  std::optional<ServingOffer> best;
  for (const Instance& i : load_instances("", gpu_table())) {
    if (i.gpu != gpu.name || i.gpu_count != static_cast<double>(ranks) || !i.usd) continue;
    if (!best || *i.usd < best->usd) best = ServingOffer{i.provider + " " + i.name, *i.usd, i.price_date};
  }
  return best;
}

// Where layers have windows, the engine's number of tokens holds at its longest sequence only: short ones fill blocks
// of every group, and the windows save nothing. The tokens that fit are those of sequences of the load's mean length.
EngineLimits limits_for(const ServedModel& model, const ServeSettings& settings, const EngineStart& start,
                        const AskedLoad& asked) {
  EngineLimits limits = start.limits;
  const CachePool pool = cache_pool(model, settings.fp8_cache ? 1 : 2, settings.tensor_ranks);
  if (settings.engine != ServingEngine::vllm || pool.groups.size() == 1 || start.blocks == 0) return limits;
  std::int64_t tokens = 0;
  for (const Request& r : asked.requests) tokens = checked_add(tokens, checked_add(r.prompt, r.answer));
  const std::int64_t mean = tokens / std::ssize(asked.requests);
  const std::int64_t blocks = pool.blocks_of(mean, 2 * limits.batched_tokens);
  limits.cache_tokens = static_cast<std::int64_t>(static_cast<double>(start.blocks) / static_cast<double>(blocks) *
                                                  static_cast<double>(mean));
  return limits;
}

}  // namespace

LoadAnswer served_load(const ServedModel& model, const Gpu& gpu, const ServeSettings& settings,
                       const EngineStart& start, const AskedLoad& asked, bool curve) {
  if (settings.engine == ServingEngine::transformers)
    throw Error("no speed of transformers' own server is known", ErrorKind::usage)
        .help("leave out --rate, --in, --out and --slo, or --engine vllm");
  const LoadedEngine engine(asked.requests, limits_for(model, settings, start, asked), pace_for(model, gpu, settings),
                            asked.prefix);
  LoadAnswer answer;
  answer.words = asked.words + (settings.engine == ServingEngine::sglang ? ", steps and their order as vLLM's" : "");
  answer.asked = asked.rate;
  answer.slo = asked.slo;
  answer.slo_words = asked.slo_words;
  if (curve) answer.curve = engine.curve();
  if (asked.slo) answer.highest = engine.highest(*asked.slo);
  answer.point = asked.rate       ? engine.at(*asked.rate)
                 : answer.highest ? *answer.highest
                                  : engine.at(engine.most_requests());
  answer.offer = offer_of(gpu, settings.tensor_ranks);
  return answer;
}

}  // namespace gpuplan
