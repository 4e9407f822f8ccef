#include "estimator/parallel/transformer_time.h"

#include <algorithm>
#include <vector>

#include "estimator/parallel/pipeline.h"

namespace gpuplan {
namespace {

double real(std::int64_t n) { return static_cast<double>(n); }

constexpr double kHalf = 2;  // bytes

// Bytes that the kernels between the products read and write, fused as section 4.2 has them. A token of one layer has
// `whole` on every rank and `shared` on all of them together, an element of the attention matrix `attention`.
struct Traffic {
  double whole = 0, shared = 0, attention = 0;
};
// Norm: reads and writes h, twice in a layer (8). Bias, dropout and add: reads two, writes one and a mask, twice (14).
// Bias and GeLU: reads and writes 4 h (16, shared). Scale, mask and softmax: reads and writes the matrix (4); its
// dropout reads, writes and makes a mask (5).
constexpr Traffic kForward{22, 16, 9};
// Norm: reads two and writes one, twice (12). Dropout: reads a gradient and a mask, writes one, twice (10). Gradients
// of the residual stream meet twice (12). Biases' gradients read h twice (4), and 7 h shared (14). GeLU reads two of 4
// h and writes one (24). Softmax reads two and writes one (6), its dropout reads a gradient and a mask and writes (5).
constexpr Traffic kBackward{38, 38, 11};
// Of an element of the logits: copied to fp32 (6), highest (4), exponentials and sum (8), gradient (4 + 2).
constexpr double kLogitBytes = 24;
// Of a parameter: its gradient copied to fp32 (6), norm (4), scaled (8), Adam on a master copy (28), copied back (6).
constexpr double kOptimizerBytes = 52;
constexpr double kGradientBytes = 4;  // reduced in fp32 (Megatron-LM's main gradients)

class LayerTimes {
 public:
  LayerTimes(const Transformer& model, const TransformerRun& run, const GpuSpeed& gpu)
      : m_(model), gpu_(gpu), tokens_(real(run.micro_batch * model.sequence)), t_(real(run.tensor)) {
    h_ = real(m_.hidden);
    s_ = real(m_.sequence);
    heads_ = real(run.micro_batch * m_.heads) / t_;
  }

  double forward_products() const {
    const double head = h_ / real(m_.heads);
    return gpu_.product(1, tokens_, 3 * h_ / t_, h_) + gpu_.product(heads_, s_, s_, head) +
           gpu_.product(heads_, s_, head, s_) + gpu_.product(1, tokens_, h_, h_ / t_) +
           gpu_.product(1, tokens_, 4 * h_ / t_, h_) + gpu_.product(1, tokens_, h_, 4 * h_ / t_);
  }

  // Of each product the gradients of both factors.
  double backward_products() const {
    const double head = h_ / real(m_.heads);
    return both(1, tokens_, 3 * h_ / t_, h_) + both(heads_, s_, s_, head) + both(heads_, s_, head, s_) +
           both(1, tokens_, h_, h_ / t_) + both(1, tokens_, 4 * h_ / t_, h_) + both(1, tokens_, h_, 4 * h_ / t_);
  }

  double element_wise(const Traffic& traffic) const {
    return (traffic.whole * tokens_ * h_ + traffic.shared * tokens_ * h_ / t_ + traffic.attention * heads_ * s_ * s_) /
           gpu_.bytes_per_second;
  }

  double head() const {
    const double words = real(m_.vocabulary) / t_;
    return gpu_.product(1, tokens_, words, h_) + both(1, tokens_, words, h_) +
           kLogitBytes * tokens_ * words / gpu_.bytes_per_second;
  }

  double activation_bytes() const { return kHalf * tokens_ * h_; }

 private:
  double both(double batch, double m, double n, double k) const {
    return gpu_.product(batch, m, k, n) + gpu_.product(batch, k, n, m);
  }

  const Transformer& m_;
  const GpuSpeed& gpu_;
  double tokens_, t_, h_ = 0, s_ = 0, heads_ = 0;
};

}  // namespace

std::optional<TransformerTime> transformer_time(const Transformer& model, const TransformerRun& run,
                                                const GpuSpeed& gpu, const Topology& topology) {
  // Ranks that share a layer are neighbours, then those of data parallelism, then the stages (Megatron-LM's order).
  const std::optional<Link> tensor_link = link_of_group(topology, run.tensor);
  const std::optional<Link> data_link = link_of_group(topology, run.ranks(), run.tensor);
  const std::optional<Link> stage_link = link_of_group(topology, 2, run.tensor * run.ranks());
  if ((run.tensor > 1 && !tensor_link) || (run.ranks() > 1 && !data_link) || (run.pipeline > 1 && !stage_link))
    return std::nullopt;

  const LayerTimes layer(model, run, gpu);
  const double layers = real(model.layers / run.pipeline), micro_batches = real(run.micro_batches());
  const double products = layers * (2 * layer.forward_products() + layer.backward_products());
  const double element_wise = layers * (2 * layer.element_wise(kForward) + layer.element_wise(kBackward));
  // Two all-reduces in forward, two when it is run again, two in backward.
  const double reduces =
      run.tensor == 1
          ? 0
          : layers * 6 * ring_seconds(Collective::all_reduce, layer.activation_bytes(), run.tensor, *tensor_link);
  // A micro-batch's activations go on, its gradients come back; each of the ranks that share them sends a part
  // (section 4.1, scatter/gather).
  const double sends =
      run.pipeline == 1
          ? 0
          : 2 * ring_seconds(Collective::send, layer.activation_bytes() / real(run.tensor), 2, *stage_link);
  TransformerTime time;
  time.head = micro_batches * layer.head();
  std::vector<double> stages(static_cast<std::size_t>(run.pipeline), products + element_wise + reduces + sends);
  stages.back() += layer.head();
  const double running = pipeline_seconds(stages, run.micro_batches());
  time.products = micro_batches * products;
  time.element_wise = micro_batches * element_wise;
  time.tensor_parallel = micro_batches * reduces;
  time.pipeline_sends = micro_batches * sends;
  time.bubble = running - micro_batches * stages.front();
  const double parameters = real(stage_parameters(model, run.tensor, run.pipeline, 0));
  if (run.ranks() > 1)
    time.data_parallel = ring_seconds(Collective::all_reduce, kGradientBytes * parameters, run.ranks(), *data_link);
  time.optimizer = kOptimizerBytes * parameters / gpu.bytes_per_second;
  time.step = running + time.data_parallel + time.optimizer;
  time.teraflops_per_gpu = training_flops(model, run.batch) / (time.step * real(run.gpus)) / 1e12;
  return time;
}

std::optional<std::int64_t> fastest_micro_batch(const Transformer& model, TransformerRun run, const GpuSpeed& gpu,
                                                const Topology& topology, double memory_bytes) {
  constexpr double kStateBytes = 18;
  std::optional<std::int64_t> fastest;
  double least = 0;
  for (const std::int64_t samples : {1, 2, 4, 8, 16}) {
    if (run.batch % (run.ranks() * samples) != 0) continue;
    run.micro_batch = samples;
    bool fits = true;
    for (const std::int64_t stage : {std::int64_t{0}, run.pipeline - 1})
      fits = fits && kStateBytes * real(stage_parameters(model, run.tensor, run.pipeline, stage)) +
                             stage_activation_bytes(model, samples, run.tensor, run.pipeline, stage,
                                                    run.micro_batches(), Recompute::full) <=
                         memory_bytes;
    const std::optional<TransformerTime> time = transformer_time(model, run, gpu, topology);
    if (!fits || !time || (fastest && time->step >= least)) continue;
    least = time->step;
    fastest = samples;
  }
  return fastest;
}

}  // namespace gpuplan
