#include "tools/answers/serving.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "estimator/base/format.h"
#include "estimator/distributed/rank_step.h"
#include "estimator/serve/start.h"
#include "estimator/spec/read.h"
#include "layers/catalog.h"
#include "tools/importers/hugging_face.h"
#include "tools/options/commit_model.h"
#include "tools/process/read_source.h"

namespace gpuplan {
namespace {

using Change = std::function<void(ServeSettings&)>;

void try_flag(const ServedModel& model, const Gpu& gpu, ServeSettings settings, std::string flag, const Change& change,
              std::vector<StartHint>& out) {
  change(settings);
  try {
    const EngineStart start = start_engine(model, gpu, settings);
    if (start.starts) out.push_back({std::move(flag), format_count(start.limits.cache_tokens) + " tokens of cache"});
  } catch (const Error&) {
    return;  // no GPUs could share the model so
  }
}

// The longest sequence that it starts with, in steps of 1,024 tokens.
void try_lengths(const ServedModel& model, const Gpu& gpu, const ServeSettings& settings, std::int64_t length,
                 std::vector<StartHint>& out) {
  constexpr std::int64_t kStep = 1024;
  std::int64_t low = 0, high = length / kStep;
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    ServeSettings changed = settings;
    changed.length = middle * kStep;
    if (start_engine(model, gpu, changed).starts)
      low = middle;
    else
      high = middle - 1;
  }
  if (low == 0) return;
  try_flag(
      model, gpu, settings, "--max-len " + std::to_string(low * kStep),
      [&](ServeSettings& s) { s.length = low * kStep; }, out);
}

std::vector<StartHint> hints_of(const ServedModel& model, const Gpu& gpu, const ServeSettings& settings,
                                const EngineStart& failed) {
  std::vector<StartHint> out;
  const auto attempt = [&](std::string flag, const Change& change) {
    try_flag(model, gpu, settings, std::move(flag), change, out);
  };
  try_lengths(model, gpu, settings, failed.limits.length, out);
  for (const int percent : {85, 90, 95, 97})
    if (failed.utilization < percent / 100.0 && out.size() < 2)
      attempt("--utilization 0." + std::to_string(percent), [&](ServeSettings& s) { s.utilization = percent / 100.0; });
  for (const int percent : {92, 90, 85, 80})  // where the GPU has less free memory than is asked for
    if (failed.utilization > percent / 100.0 && out.empty())
      attempt("--utilization 0." + std::to_string(percent), [&](ServeSettings& s) { s.utilization = percent / 100.0; });
  if (!settings.fp8_cache) attempt("--kv fp8", [](ServeSettings& s) { s.fp8_cache = true; });
  if (failed.limits.batched_tokens > 2048)
    attempt("--max-batched-tokens 2048", [](ServeSettings& s) { s.batched_tokens = 2048; });
  if (!settings.eager) attempt("--enforce-eager", [](ServeSettings& s) { s.eager = true; });
  if (settings.adapters > 1)
    attempt("--lora 1x" + std::to_string(settings.adapter_rank), [](ServeSettings& s) { s.adapters = 1; });
  if (settings.weights == WeightForm::plain)
    attempt("--weights int4:awq", [](ServeSettings& s) { s.weights = WeightForm::int4_awq; });
  for (std::int64_t ranks = settings.tensor_ranks * 2; ranks <= 8; ranks *= 2) {
    const std::size_t before = out.size();
    attempt("--tp " + std::to_string(ranks), [&](ServeSettings& s) { s.tensor_ranks = ranks; });
    if (out.size() > before) break;
  }
  return out;
}

WeightForm form_named(const std::string& words) {
  if (words.empty() || words == "mxfp4") return WeightForm::plain;  // gpt-oss's experts, which the layer itself says
  if (words.starts_with("fp8")) return WeightForm::fp8;
  if (words == "awq 4-bit") return WeightForm::int4_awq;
  if (words == "gptq 4-bit") return WeightForm::int4_gptq;
  throw Error("quantization_config: no engine's start is known with " + words + " weights")
      .help("fp8, awq and gptq of 4 bits and mxfp4 are; without this key, --weights says the form");
}

}  // namespace

PublishedModel published_model(const RunOptions& options) {
  const bool in_folder = options.model != "-" && options.model.find(':') == std::string::npos;
  if (const std::string file = in_folder ? model_file(options.model) : ""; file.ends_with(".json")) {
    const std::shared_ptr<const Source> config = read_file_source(file);
    if (const std::string words = quantization_of(*config); !words.empty()) {
      const std::shared_ptr<const Source> spec = hugging_face_spec(*config, Quantized::as_before);
      return {read_model(spec, {.set = variables_of(options), .open = {}}), form_named(words)};
    }
  }
  return {load_model(options), WeightForm::plain};
}

ServedModel decoder_of(const Model& model, const Gpu& gpu) {
  RunConfig run;
  run.mode = Mode::infer;
  run.precision = DType::bf16;
  const RankStep step = make_step(model, make_catalog(), run, gpu);
  return served_model(model, step.graph);
}

EngineStart tried_start(const ServedModel& model, const Gpu& gpu, const ServeSettings& settings) {
  EngineStart start = start_engine(model, gpu, settings);
  if (!start.starts) start.hints = hints_of(model, gpu, settings, start);
  return start;
}

}  // namespace gpuplan
