#include "estimator/time/layer_times.h"

namespace gpuplan {
namespace {

// Bytes that the kernels between the products read and write. A token of one layer has `whole` on every rank and
// `shared` on all of them together, an element of the attention matrix `attention`.
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

// What the host calls in a forward: the products; the norms; softmax and its dropout, the context made contiguous,
// GeLU, and two of bias, dropout and add. Of weights and biases each of the norms and of the four linear layers has
// two.
constexpr double kProducts = 6, kNorms = 2, kOthers = 6, kParameters = 12;

class TimedLayer {
 public:
  TimedLayer(const Transformer& model, const TransformerRun& run, const GpuSpeed& gpu)
      : m_(model), gpu_(gpu), tokens_(real(run.micro_batch) * real(model.sequence)), t_(real(run.tensor)) {
    h_ = real(m_.hidden);
    s_ = real(m_.sequence);
    heads_ = real(run.micro_batch) * real(m_.heads) / t_;
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

  double forward_host(bool records) const {
    const double calls =
        kProducts * gpu_.host.product + kNorms * gpu_.host.norm + (kOthers + reduces()) * gpu_.host.other;
    return calls * (records ? gpu_.host.recording : 1);
  }

  double backward_host() const {
    return (kProducts + kNorms + kOthers + reduces()) * gpu_.host.node + kParameters * gpu_.host.parameter;
  }

  double head() const {
    const double words = real(m_.vocabulary) / t_;
    return gpu_.product(1, tokens_, words, h_) + both(1, tokens_, words, h_) +
           kLogitBytes * tokens_ * words / gpu_.bytes_per_second;
  }

 private:
  double both(double batch, double m, double n, double k) const {
    return gpu_.product(batch, m, k, n) + gpu_.product(batch, k, n, m);
  }
  double reduces() const { return t_ > 1 ? 2 : 0; }

  const Transformer& m_;
  const GpuSpeed& gpu_;
  double tokens_, t_, h_ = 0, s_ = 0, heads_ = 0;
};

}  // namespace

PassSeconds forward_of_layer(const Transformer& model, const TransformerRun& run, const GpuSpeed& gpu, bool records) {
  const TimedLayer layer(model, run, gpu);
  return {layer.forward_products(), layer.element_wise(kForward), layer.forward_host(records)};
}

PassSeconds backward_of_layer(const Transformer& model, const TransformerRun& run, const GpuSpeed& gpu) {
  const TimedLayer layer(model, run, gpu);
  return {layer.backward_products(), layer.element_wise(kBackward), layer.backward_host()};
}

double head_seconds(const Transformer& model, const TransformerRun& run, const GpuSpeed& gpu) {
  return TimedLayer(model, run, gpu).head();
}

double optimizer_seconds(double parameters, const GpuSpeed& gpu) {
  return kOptimizerBytes * parameters / gpu.bytes_per_second;
}

}  // namespace gpuplan
