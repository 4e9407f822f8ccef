#include "tools/options/serve_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>

#include "estimator/base/amount.h"
#include "tools/options/words.h"

namespace gpuplan {
namespace {

double utilization(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0) || value > 1)
    throw Error(
        "--utilization expects a share of the GPU's memory above 0, 1 at most, such as 0.9, not \"" + text + "\"",
        ErrorKind::usage);
  return value;
}

void read_lora(const std::string& text, ServeSettings& settings) {
  const std::size_t x = text.find('x');
  if (x == std::string::npos)
    throw Error("--lora expects adapters and their rank, such as 4x16, not \"" + text + "\"", ErrorKind::usage);
  settings.adapters = whole_number("--lora", text.substr(0, x), 1, 1024);
  settings.adapter_rank = whole_number("--lora", text.substr(x + 1), 1, 512);
  constexpr std::array kRanks = {1, 8, 16, 32, 64, 128, 256, 320, 512};  // vLLM's MaxLoRARanks
  if (std::ranges::find(kRanks, settings.adapter_rank) == kRanks.end())
    throw Error("--lora " + text + ": vLLM loads adapters of rank 1, 8, 16, 32, 64, 128, 256, 320 and 512 at most",
                ErrorKind::usage)
        .help("the next larger of these takes smaller adapters, too");
}

ServingEngine engine_named(const std::string& name) {
  // Both measure a run of their own before they size the cache, and published logs say too little to hold ours to.
  if (name == "vllm-v0" || name == "tensorrt-llm")
    throw Error("--engine " + name + " is not planned: its cache is what a run of it leaves, which was not measured",
                ErrorKind::usage)
        .help("--engine vllm plans vLLM 0.33.0, sglang SGLang 0.5.23, transformers its continuous batching");
  return choose<ServingEngine>("--engine", name,
                               {{"vllm", ServingEngine::vllm},
                                {"sglang", ServingEngine::sglang},
                                {"transformers", ServingEngine::transformers}});
}

}  // namespace

// "16384", "16k": as vLLM reads its lengths, k is 1,000 and K is 1,024.
std::int64_t token_count(std::string_view flag, const std::string& text) {
  constexpr std::int64_t kLongestServed = std::int64_t{1} << 30;
  static constexpr AmountUnit kUnits[] = {{"", 1}, {"k", 1000}, {"K", 1024}, {"m", 1'000'000}, {"M", 1 << 20}};
  const std::optional<std::int64_t> n = read_amount(text, kUnits);
  if (!n || *n < 1 || *n > kLongestServed)
    throw Error(std::string(flag) + " expects a number of tokens such as 16384 or 16K, not \"" + text + "\"",
                ErrorKind::usage);
  return *n;
}

void add_serve_options(CLI::App& command, ServeOptions& o) {
  const char* const group = "Engine";
  const auto add = [&](const char* name, std::string& to, const char* about, const char* type) {
    command.add_option(name, to, about)->group(group)->type_name(type);
  };
  add("--engine", o.engine, "Engine that serves (vllm)", "vllm|sglang|transformers");
  add("--max-len,--max-model-len,--context-length", o.length,
      "Tokens of a sequence at most, prompt and answer (the model's own)", "N");
  add("--utilization,--gpu-memory-utilization,--mem-fraction-static,--cb-max-memory-percent", o.utilization,
      "Share of the GPU's memory for the engine (the engine's own: vLLM's is 0.92)", "X");
  add("--max-batched-tokens,--max-num-batched-tokens,--chunked-prefill-size,--cb-max-batch-tokens", o.batched_tokens,
      "Tokens of a step (the engine's own, by GPU)", "N");
  add("--max-seqs,--max-num-seqs,--max-running-requests", o.sequences, "Sequences at a time (the engine's own, by GPU)",
      "N");
  add("--tp,--tensor-parallel-size", o.tensor_ranks, "GPUs that share each layer (1)", "N");
  add("--kv,--kv-cache-dtype", o.cache, "Type of the cache (auto: the model's)", "auto|fp8");
  add("--weights", o.weights, "Form of the layers' weights (plain)", "plain|fp8|int4:awq|int4:gptq");
  add("--lora", o.lora, "Adapters that are loaded at a time, and their rank: 4x16", "NxRANK");
  command
      .add_flag("--enforce-eager,--disable-cuda-graph", o.eager, "Neither compiles the model nor captures CUDA graphs")
      ->group(group);
  command
      .add_flag("--compiled-before", o.compiled,
                "A later start, which finds what the first one compiled: its profile run may peak lower")
      ->group(group);
}

ServeSettings serve_settings(const ServeOptions& o) {
  ServeSettings s;
  if (!o.engine.empty()) s.engine = engine_named(o.engine);
  if (!o.length.empty()) s.length = token_count("--max-len", o.length);
  if (!o.utilization.empty()) s.utilization = utilization(o.utilization);
  if (!o.batched_tokens.empty()) s.batched_tokens = token_count("--max-batched-tokens", o.batched_tokens);
  if (!o.sequences.empty()) s.sequences = whole_number("--max-seqs", o.sequences, 1, 1 << 20);
  if (!o.tensor_ranks.empty()) s.tensor_ranks = whole_number("--tp", o.tensor_ranks, 1, 1024);
  if (!o.cache.empty()) s.fp8_cache = choose<bool>("--kv", o.cache, {{"auto", false}, {"fp8", true}});
  if (!o.weights.empty())
    s.weights = choose<WeightForm>("--weights", o.weights,
                                   {{"plain", WeightForm::plain},
                                    {"fp8", WeightForm::fp8},
                                    {"int4:awq", WeightForm::int4_awq},
                                    {"int4:gptq", WeightForm::int4_gptq}});
  if (!o.lora.empty()) read_lora(o.lora, s);
  s.eager = o.eager;
  s.compiled_before = o.compiled;
  return s;
}

}  // namespace gpuplan
