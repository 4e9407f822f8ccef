#include "estimator/serve/engine_kernels.h"

#include <algorithm>
#include <cstdint>

namespace gpuplan {
namespace {

// Elements of a token.
struct Widths {
  double hidden = 0;   // of the hidden states
  double rotated = 0;  // queries and keys
  double inner = 0;    // of what the activation makes, in all experts that the token visits
  bool gated = false;  // two halves make it
  double experts = 0;  // that there are; 0: one MLP, without a router
  double sharing = 1;  // queries that have one key
};

Widths widths_of(const ServedLayer& layer) {
  const ServedAttention& a = layer.attention;
  Widths w;
  w.rotated = static_cast<double>((a.heads + a.kv_heads) * a.key_size);
  w.sharing = static_cast<double>(a.heads) / static_cast<double>(std::max<std::int64_t>(a.kv_heads, 1));
  double made = 0;
  for (const ServedMatrix& m : layer.matrices) {
    if (m.role == MatrixRole::attention_output) w.hidden = static_cast<double>(m.out);
    if (m.role == MatrixRole::mlp_output) w.inner += static_cast<double>(m.in * m.used);
    if (m.role == MatrixRole::mlp_input) made += static_cast<double>(m.out * m.used);
    if (m.expert) w.experts = static_cast<double>(m.copies);
  }
  w.gated = made > 1.5 * w.inner;
  return w;
}

// vLLM: fused_add_rms_norm reads and writes two tensors, rotary_embedding changes queries and keys in place,
// silu_and_mul reads two halves. Kernels: two norms, three products and rotary, cache, attention and its reduction, the
// activation and the last product; of experts also top-k, sorting, and the sum of them.
LayerKernels of_vllm(const Widths& w) {
  LayerKernels k;
  k.bytes = 2 * 4 * 2 * w.hidden + 2 * 2 * 2 * w.rotated + 2 * (w.gated ? 3 : 2) * w.inner;
  k.kernels = w.experts > 0 ? 16 : 11;
  k.calls = k.kernels - 4;
  k.products = 4;
  k.score_bytes = 24;
  return k;
}

// transformers' modeling_llama.py, as PyTorch runs it eagerly. A norm is to(fp32), pow, mean, add, rsqrt, mul, to, mul:
// 38 bytes an element. Rotary: cos and sin are looked up; queries and keys each take two slices, neg, cat, two mul,
// add. Then DynamicCache.update() reads and writes all of the cache (torch.cat), repeat_kv() reads it and writes it
// once for every query that shares a key, where some do, and attention reads that; views, silu, mul and two sums.
// Scores that are not fused: product, division, mask, softmax in fp32 and back, product.
//
// Experts run one after another (modeling_mixtral.py's MixtralSparseMoeBlock): of each, torch.where says which tokens
// visit it; where some do, it takes, scales and adds their rows beside silu and mul, and has three products.
LayerKernels of_transformers(const Widths& w) {
  LayerKernels k;
  k.bytes = 2 * 38 * w.hidden + 22 * w.rotated + (w.gated ? 10 : 4) * w.inner + 2 * 6 * w.hidden;
  k.calls = 45;
  k.products = 7;
  if (w.experts > 0) {
    k.products = 5;  // with the router's, without an MLP's
    k.calls += 3 * w.experts;
    k.calls_an_expert = 9, k.products_an_expert = 3;
  }
  k.kernels = k.calls + k.products;
  k.cache_passes = w.sharing > 1 ? 3 + 2 * w.sharing : 3;
  k.score_bytes = 2 + 4 + 4 + 6 + 8 + 6 + 2;
  return k;
}

// llama.cpp's llama_build_graph for LLaMA in ggml, between products in fp32: a norm and its mul (16 bytes an element),
// a sum (12), rope (8), silu and mul (20); inputs of products converted or quantised and results converted back where
// cuBLAS makes them. Kernels: seven products, as many quantisations of their input, two norms of two, two ropes, two
// copies to the cache, four of attention, two of the activation, two sums. Scores in fp32: product, softmax, product.
LayerKernels of_llama_cpp(const Widths& w) {
  LayerKernels k;
  k.bytes = 2 * (16 + 12) * w.hidden + 8 * w.rotated + (w.gated ? 20 : 8) * w.inner +
            12 * (2 * w.hidden + w.rotated + (w.gated ? 2 : 1) * w.inner);
  k.kernels = w.experts > 0 ? 40 : 30;
  k.calls = k.kernels - 7;
  k.products = 7;
  k.score_bytes = 4 + 8 + 8;
  return k;
}

}  // namespace

LayerKernels layer_kernels(const ServedLayer& layer, ServingEngine engine) {
  const Widths w = widths_of(layer);
  switch (engine) {
    case ServingEngine::sglang:  // whose kernels are those of vLLM, as far as is known
    case ServingEngine::vllm: return of_vllm(w);
    case ServingEngine::transformers: return of_transformers(w);
    case ServingEngine::llama_cpp: break;
  }
  return of_llama_cpp(w);
}

}  // namespace gpuplan
