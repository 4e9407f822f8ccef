#include "estimator/serve/pace.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/serve/engine_kernels.h"
#include "estimator/time/operation_time.h"
#include "estimator/time/product_time.h"

namespace gpuplan {
namespace {

double real(std::int64_t n) { return static_cast<double>(n); }

// Layers that are alike are timed once.
struct Alike {
  ServedLayer layer;
  LayerKernels kernels;
  double count = 1;
};

bool alike(const ServedMatrix& a, const ServedMatrix& b) {
  return a.role == b.role && a.in == b.in && a.out == b.out && a.copies == b.copies && a.used == b.used;
}

bool alike(const ServedLayer& a, const ServedLayer& b) {
  const ServedAttention &x = a.attention, &y = b.attention;
  return x.heads == y.heads && x.kv_heads == y.kv_heads && x.key_size == y.key_size && x.value_size == y.value_size &&
         x.window == y.window && x.latent == y.latent &&
         std::ranges::equal(a.matrices, b.matrices, [](const auto& m, const auto& n) { return alike(m, n); });
}

std::vector<Alike> kinds_of(const ServedModel& model, ServingEngine engine) {
  std::vector<Alike> kinds;
  for (const ServedLayer& layer : model.layers) {
    const auto same = std::ranges::find_if(kinds, [&](const Alike& kind) { return alike(kind.layer, layer); });
    if (same != kinds.end()) {
      same->count += 1;
      continue;
    }
    kinds.push_back({layer, layer_kernels(layer, engine), 1});
  }
  return kinds;
}

// GeForce cards multiply twice as fast where they sum in half precision, as llama.cpp asks cuBLAS to
// (ggml_cuda_op_mul_mat_cublas, CUBLAS_COMPUTE_16F); no other engine does.
bool sums_at_half_rate(const Gpu& gpu, const PaceSettings& settings) {
  return settings.engine != ServingEngine::llama_cpp && gpu.datasheet && gpu.datasheet->fp32_accumulate == "half";
}

ProductUnits units_of(const Gpu& gpu, const PaceSettings& settings, const TimeModel& time) {
  const Processor on = make_processor(gpu, time);
  ProductRate rate = product_rate(settings.compute, false, on);
  const bool sums_in_half = settings.engine == ServingEngine::llama_cpp && gpu.datasheet.has_value();
  if (sums_in_half)
    rate.flops = std::max(rate.flops, gpu.datasheet->rate(Rate::fp16_tensor_fp16acc).value_or(0) * 1e12);
  const WeightFormat multiplied = settings.weights.multiplied;
  if (multiplied != WeightFormat::as_computed)
    rate.flops = std::max(rate.flops, stored_rate(multiplied, gpu).value_or(0));
  return {gpu.sm_count, rate.flops, on.peaks.bytes, rate.tensor_cores};
}

class Pace {
 public:
  Pace(const ServedModel& model, const Gpu& gpu, const PaceSettings& settings, const TimeModel& time,
       const PaceModel& pace)
      : settings_(settings),
        time_(time),
        pace_(pace),
        units_(units_of(gpu, settings, time)),
        kinds_(kinds_of(model, settings.engine)),
        hidden_(real(model.hidden)),
        vocabulary_(real(model.vocabulary)),
        product_share_(sums_at_half_rate(gpu, settings) ? pace.half_rate : pace.full_rate),
        bytes_(units_.bytes * pace.stream),
        weight_bytes_(bytes_) {
    const double loads = rate_of_units(gpu, pace.llama_cpp_bytes_a_clock / 2);  // a multiply-add counts twice
    if (settings.engine == ServingEngine::llama_cpp && loads > 0) weight_bytes_ = std::min(bytes_, loads);
  }

  double operator()(const EngineStep& step) const {
    if (step.tokens() <= 0) return 0;
    double gpu = 0, host = calls(step_calls(), 0);
    for (const Alike& kind : kinds_) {
      gpu += kind.count * layer_seconds(kind, step);
      host += kind.count * host_seconds(kind, real(step.tokens()));
    }
    gpu += head_seconds(step);
    switch (settings_.engine) {
      case ServingEngine::sglang:  // whose kernels are those of vLLM, as far as is known
      case ServingEngine::vllm: {
        const bool replayed = settings_.graphs && step.prefill_tokens == 0;
        return (replayed ? gpu : std::max(gpu, host)) + pace_.vllm_step;
      }
      case ServingEngine::llama_cpp: return gpu + pace_.llama_cpp_step;
      case ServingEngine::transformers: break;
    }
    return std::max(gpu, host);
  }

 private:
  // GenerationMixin's loop beside the model: masks, positions, logits to fp32, arg max, stopping criteria.
  static double step_calls() { return 40; }
  double calls(double others, double products) const {
    return pace_.transformers_host * (others * time_.host_other + products * time_.host_product);
  }

  double host_seconds(const Alike& kind, double tokens) const {
    const LayerKernels& k = kind.kernels;
    double visited = 0;
    for (const ServedMatrix& m : kind.layer.matrices)
      if (m.role == MatrixRole::mlp_output && m.expert) visited = visited_experts(real(m.copies), real(m.used), tokens);
    const double products = k.products + visited * k.products_an_expert;
    return calls(k.calls + visited * k.calls_an_expert + products * settings_.weights.calls, products);
  }

  // A product of `tokens` rows with a weight [in, out] of experts of which a row visits some.
  double product(double tokens, double in, double out, double copies, double used, double bits) const {
    const StoredWeights& w = settings_.weights;
    const double visited = visited_experts(copies, used, tokens);
    const double rows = tokens * used / visited;
    const double moved = visited * in * out * bits / 8 / weight_bytes_ + 2 * tokens * used * (in + out) / bytes_;
    const ProductShape shape{visited, std::ceil(rows), out, in};
    const bool unpacks = bits < 16 && w.unpacked_from > 0 && rows >= real(w.unpacked_from);
    if (!unpacks) return std::max(moved, computed_seconds(shape, bits < 16 && w.slow_products));
    // Read as stored and written in half precision; the product reads that.
    const double unpacking = visited * in * out * (bits / 8 + 2) / bytes_;
    return unpacking + std::max(visited * in * out * 2 / bytes_, computed_seconds(shape, false));
  }

  // Kernels for few rows have no tiles to fill: cuBLAS's of one, llama.cpp's of up to eight (MMVQ_MAX_BATCH_SIZE).
  double computed_seconds(const ProductShape& shape, bool slow) const {
    if (shape.m <= (settings_.engine == ServingEngine::llama_cpp ? 8 : 1)) return 0;
    if (slow) return 2 * shape.batch * shape.m * shape.n * shape.k / (units_.flops * pace_.unpacking);
    return product_seconds(shape, units_, product_share_, time_);
  }

  double matrix_seconds(const ServedMatrix& m, double tokens) const {
    const double ranks = real(settings_.tensor_ranks);
    const bool whole = m.role == MatrixRole::router;
    const bool by_input = m.role == MatrixRole::attention_output || m.role == MatrixRole::mlp_output;
    const double in = by_input ? real(m.in) / ranks : real(m.in);
    const double out = by_input || whole ? real(m.out) : real(m.out) / ranks;
    constexpr double kMicroscaledBits = 4.25;  // 4 and a byte for 32
    const double bits = whole ? 16 : m.microscaled ? kMicroscaledBits : settings_.weights.bits;
    return product(tokens, in, out, real(m.copies), real(m.used), bits);
  }

  // All of a layer. Steps of a simulation are alike: each number of tokens is asked for many times.
  double matrices_seconds(const Alike& kind, std::int64_t tokens) const {
    const auto key = std::pair(&kind - kinds_.data(), tokens);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    double seconds = 0;
    for (const ServedMatrix& m : kind.layer.matrices) seconds += matrix_seconds(m, real(tokens));
    return known_[key] = seconds;
  }

  double prefill_seconds(const Alike& kind, const EngineStep& step) const {
    const ServedAttention& a = kind.layer.attention;
    const double heads = real(a.heads) / real(settings_.tensor_ranks);
    double pairs = step.prefill_pairs;
    if (a.window > 0) pairs = std::min(pairs, real(step.prefill_tokens) * real(a.window));
    // A fused kernel skips the tokens that come later, others compute their scores too.
    if (!settings_.fused_attention) pairs *= 2;
    const double flops = 2 * pairs * heads * real(a.key_size + a.value_size);
    const double share = settings_.fused_attention ? time_.attention_forward : time_.on_tensor_cores[1];
    const double scores = settings_.fused_attention ? 0 : pairs * heads * kind.kernels.score_bytes / bytes_;
    return flops / (units_.flops * share) + scores;
  }

  double decode_seconds(const Alike& kind, const EngineStep& step) const {
    const ServedAttention& a = kind.layer.attention;
    double tokens = real(step.context_tokens);
    if (a.window > 0) tokens = std::min(tokens, real(step.decoding) * real(a.window));
    // Heads of keys are repeated where there are fewer than ranks; a latent is on all of them.
    const double ranks = a.latent > 0 ? 1 : std::min(real(settings_.tensor_ranks), real(a.kv_heads));
    const double slower = settings_.engine == ServingEngine::transformers ? pace_.transformers_cache : 1;
    return slower * kind.kernels.cache_passes * tokens * real(a.cached()) / ranks * settings_.cache_element_bytes /
           bytes_;
  }

  double layer_seconds(const Alike& kind, const EngineStep& step) const {
    const double tokens = real(step.tokens());
    double seconds = prefill_seconds(kind, step) + decode_seconds(kind, step);
    seconds += matrices_seconds(kind, step.tokens());
    const bool eager = settings_.engine == ServingEngine::transformers;
    seconds += tokens * kind.kernels.bytes / (eager ? units_.bytes * pace_.element_wise : bytes_);
    seconds += kind.kernels.kernels * pace_.kernel_start;
    if (settings_.tensor_ranks > 1) seconds += 2 * reduced(2 * tokens * hidden_);  // after attention, and after the MLP
    return seconds;
  }
  double reduced(double bytes) const {
    return ring_seconds(Collective::all_reduce, bytes, settings_.tensor_ranks, *settings_.link);
  }

  // Logits of sequences that get a token. A prompt counts as one, whole or in part.
  double head_seconds(const EngineStep& step) const {
    const double rows = real(step.decoding) + (step.prefill_tokens > 0 ? 1 : 0);
    const double out = std::ceil(vocabulary_ / real(settings_.tensor_ranks));
    const auto key = std::pair(std::ptrdiff_t{-1}, static_cast<std::int64_t>(rows));
    auto known = known_.find(key);
    if (known == known_.end())
      known = known_.emplace(key, product(rows, hidden_, out, 1, 1, settings_.weights.head_bits)).first;
    return known->second + rows * vocabulary_ * 8 / bytes_;
  }

  PaceSettings settings_;
  TimeModel time_;
  PaceModel pace_;
  ProductUnits units_;
  std::vector<Alike> kinds_;
  double hidden_, vocabulary_;
  double product_share_;
  double bytes_, weight_bytes_;  // a second: of what is moved, and of weights that are read
  mutable std::map<std::pair<std::ptrdiff_t, std::int64_t>, double> known_;  // seconds, by kind of layer and tokens
};

}  // namespace

double visited_experts(double copies, double used, double tokens) {
  if (copies <= 1) return copies;
  return copies * (1 - std::pow(1 - used / copies, tokens));
}

std::optional<StepSeconds> pace_of(const ServedModel& model, const Gpu& gpu, const PaceSettings& settings,
                                   const TimeModel& time, const PaceModel& pace) {
  if (settings.engine == ServingEngine::llama_cpp && settings.tensor_ranks > 1)
    throw Error("the time of llama.cpp with layers shared among GPUs (--split-mode row) is not known", ErrorKind::usage)
        .help("time one GPU: by default llama.cpp splits the model between layers, and one GPU works after another");
  if (!rated_peaks(gpu).known() || (settings.tensor_ranks > 1 && !settings.link)) return std::nullopt;
  return StepSeconds(Pace(model, gpu, settings, time, pace));
}

}  // namespace gpuplan
