#include "estimator/serve/sglang.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "estimator/base/error.h"
#include "estimator/base/format.h"
#include "estimator/base/integers.h"
#include "estimator/serve/cache_pool.h"
#include "estimator/serve/engine_texts.h"
#include "estimator/serve/vllm_memory.h"

namespace gpuplan {
namespace {

const char* const kSglang = "SGLang 0.5.23";

void refuse_what_sglang_lacks(const ServedModel& model, const Gpu& gpu, const ServeSettings& settings) {
  refuse_flag(settings.compiled_before, "--compiled-before", kSglang, "its cache is the same at every start");
  refuse_flag(settings.adapters > 0, "--lora", kSglang, "--engine vllm plans adapters");
  refuse_flag(settings.weights == WeightForm::int4_awq || settings.weights == WeightForm::int4_gptq, "--weights int4",
              kSglang, "--weights plain or fp8; --engine vllm plans int4, too");
  refuse_windows(model, kSglang);
  if (model.layers.front().attention.latent > 0 && gpu.capability_major >= 10)
    throw Error(std::string(kSglang) + " is not planned with a latent cache on Blackwell", ErrorKind::usage)
        .help("which graphs it captures there depends on the model's class; a Hopper GPU is planned");
  refuse_ranks(model, settings.tensor_ranks);
}

// generate_prefill_cuda_graph_batch_sizes(): how many sizes up to `most` are captured.
std::int64_t prefill_graphs(std::int64_t most) {
  std::int64_t count = 0;
  for (std::int64_t n = 4; n <= most; ++count)
    n += n < 32 ? 4 : n < 256 ? 16 : n < 512 ? 32 : n < 1024 ? 64 : n < 4096 ? 256 : 512;
  return count;
}

// get_default_attention_backend(): trtllm_mha on data center Blackwell, whose pages have 64 tokens; elsewhere 1.
std::int64_t page_tokens(const Gpu& gpu) { return gpu.capability_major == 10 ? 64 : 1; }

std::int64_t token_bytes(const ServedModel& model, const ServeSettings& settings) {
  const CachePool pool = cache_pool(model, settings.fp8_cache ? 1 : 2, settings.tensor_ranks);
  return pool.block_bytes / pool.block_tokens;
}

// resolve_max_num_reqs().
std::int64_t requests_of(const ServeSettings& settings, std::int64_t tokens, std::int64_t length) {
  const auto usual = static_cast<std::int64_t>(static_cast<double>(tokens) / static_cast<double>(length) * 512);
  return std::min(settings.sequences.value_or(std::clamp<std::int64_t>(usual, 2048, 4096)), tokens / 2);
}

// _profile_available_bytes() and its caller say why there is no cache.
std::string no_cache_text(double fraction, std::int64_t before, std::int64_t after, std::int64_t rest) {
  if (rest > 0) return "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.";
  const double least = 1 - static_cast<double>(after) / static_cast<double>(before);
  char text[256];
  std::snprintf(text, sizeof text,
                "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=%g. Raise "
                "--mem-fraction-static above %.3f (minimum viable = 1 - available/pre = %.4f).",
                fraction, std::ceil(least * 1000) / 1000, least);
  return text;
}

}  // namespace

SglangDefaults sglang_defaults(const Gpu& gpu, const ServeSettings& settings, bool latent) {
  constexpr std::int64_t kGibInMib = 1024;
  const std::int64_t mib = gpu.memory_bytes >> 20, ranks = settings.tensor_ranks;
  SglangDefaults out;
  const auto choose = [&](std::int64_t chunk, std::int64_t few_ranks, std::int64_t many_ranks) {
    out.chunk = chunk;
    out.decoding = ranks < 4 ? few_ranks : many_ranks;
  };
  if (mib < 20 * kGibInMib)
    choose(2048, 8, 8);
  else if (mib < 35 * kGibInMib)
    choose(4096, 48, 160);
  else if (mib < 60 * kGibInMib)
    choose(4096, 32, 160);
  else if (mib < 160 * kGibInMib)
    choose(8192, 256, 512);
  else
    choose(16384, 512, 512);
  out.chunk = settings.batched_tokens.value_or(out.chunk);
  out.decoding = std::min(out.decoding, settings.sequences.value_or(out.decoding));
  // Metadata, activations of a chunk, ranks, and graphs (reserve_for_graph_mb()).
  double reserve =
      512 + 1.5 * static_cast<double>(std::max<std::int64_t>(out.chunk, 2048)) + 1024 * static_cast<double>(ranks) / 8;
  if (!settings.eager)
    reserve +=
        2 * static_cast<double>(out.decoding) + (latent ? 1536 : 8 * static_cast<double>(prefill_graphs(out.chunk)));
  if (mib > 60 * kGibInMib) reserve = std::max(reserve, 10.0 * kGibInMib);
  out.static_fraction = std::round((static_cast<double>(mib) - reserve) / static_cast<double>(mib) * 1000) / 1000;
  return out;
}

std::int64_t sglang_tokens(std::int64_t before, std::int64_t after, double fraction, std::int64_t token_bytes,
                           std::int64_t page) {
  const double rest = static_cast<double>(after) - static_cast<double>(before) * (1 - fraction);
  return static_cast<std::int64_t>(std::floor(rest)) / token_bytes / page * page;
}

EngineStart start_sglang(const ServedModel& model, const Gpu& gpu, const ServeSettings& settings) {
  refuse_what_sglang_lacks(model, gpu, settings);
  const bool latent = model.layers.front().attention.latent > 0;
  const SglangDefaults usual = sglang_defaults(gpu, settings, latent);
  const std::int64_t length = served_length(model, settings, "SGLang refuses it, too");
  EngineStart start;
  start.engine = kSglang;
  start.limits = {.block_tokens = page_tokens(gpu), .batched_tokens = usual.chunk, .length = length};
  start.gpu_bytes = usable_bytes(gpu);
  start.utilization = settings.utilization.value_or(usual.static_fraction);
  start.shared_bytes = start.gpu_bytes - gpu.context_bytes.value_or(kAssumedContextBytes);
  start.shared_note = "that are free before the weights";
  start.requested_bytes = static_cast<std::int64_t>(static_cast<double>(start.shared_bytes) * start.utilization);
  start.weights_bytes = loaded_bytes(
      model, gpu,
      {.ranks = settings.tensor_ranks, .positions = std::max(model.positions, length), .weights = settings.weights});
  start.parts = {{"weights", start.weights_bytes, format_count(model.parameters()) + " parameters, rotary tables"}};
  const std::int64_t after = start.shared_bytes - start.weights_bytes;
  if (after < 0) {
    start.error = "torch.OutOfMemoryError: CUDA out of memory, as the weights are loaded, which take " +
                  gib(start.weights_bytes) + " GiB";
    return start;
  }
  start.consumed_bytes = start.weights_bytes;
  const std::int64_t each = token_bytes(model, settings), page = start.limits.block_tokens;
  const std::int64_t tokens = sglang_tokens(start.shared_bytes, after, start.utilization, each, page);
  start.cache_bytes = start.requested_bytes - start.weights_bytes;
  if (tokens <= 0) {
    start.error = no_cache_text(start.utilization, start.shared_bytes, after, start.cache_bytes);
    return start;
  }
  start.starts = true;
  start.block_bytes = checked_mul(each, page);
  start.blocks = tokens / page;
  start.limits.cache_tokens = tokens;
  start.limits.sequences = requests_of(settings, tokens, length);
  start.sequences_at_length = static_cast<double>(tokens) / static_cast<double>(length);
  // ReqToTokenPool: a row of int32 for each request and one more, with four places to spare.
  const std::int64_t table = checked_mul(checked_mul(start.limits.sequences + 1, length + 4), 4);
  const std::int64_t left = start.shared_bytes - start.requested_bytes - table;
  start.outside = {
      {"Request table", table, "of " + format_count(start.limits.sequences) + " requests"},
      {"Left free", left, "for CUDA graphs, workspaces and activations, whose sizes SGLang has no rule for"}};
  if (left < 0)
    start.warnings.push_back(
        "the table of requests does not fit beside the cache: SGLang runs out of memory; lower "
        "--utilization or --max-seqs");
  if (tokens <= length)
    start.warnings.push_back("SGLang starts, and rejects requests of more than " + format_count(tokens - 1) +
                             " tokens: its cache has no more");
  return start;
}

}  // namespace gpuplan
