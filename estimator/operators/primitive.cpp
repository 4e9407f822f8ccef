#include "estimator/operators/primitive.h"

#include <algorithm>
#include <array>
#include <span>

#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

// Arithmetic operations an element, batch norm: training computes mean, variance, normalise, scale, shift;
// eval folds to one multiply-add (facts/flop_conventions: BN 5 and 2). Backward: two sums and the update.
constexpr int kBatchNormTraining = 5, kBatchNormEval = 2, kBatchNormBackward = 8;
constexpr int kSoftmax = 5, kSoftmaxBackward = 3;  // max, subtract, exp, sum, divide; product, sum, subtract

struct CostOf {
  Cost operator()(const Gemm& g) const {
    return {checked_product({g.batch, g.m, g.n, g.k}), g.bias_epilogue ? checked_product({g.batch, g.m, g.n}) : 0, 1};
  }
  Cost operator()(const Convolution& c) const { return {macs(c), 0, 1}; }
  Cost operator()(const Elementwise& e) const { return {0, checked_mul(e.elements, e.flops), 1}; }
  Cost operator()(const BatchNorm& b) const {
    return {0,
            checked_mul(b.elements, b.backward   ? kBatchNormBackward
                                    : b.training ? kBatchNormTraining
                                                 : kBatchNormEval),
            1};
  }
  Cost operator()(const LayerNorm& l) const {
    return {0, checked_mul(checked_product({l.rows, l.columns}), l.backward ? kBatchNormBackward : kBatchNormTraining),
            l.backward && l.weights > 0 ? 2 : 1};
  }
  // Moments, then the coefficients of each channel, then one multiply-add; backward: the sums, coefficients, dX and dW.
  Cost operator()(const GroupNorm& g) const {
    return {
        0,
        checked_mul(checked_product({g.n, g.channels, g.area}), g.backward ? kBatchNormBackward : kBatchNormTraining),
        g.backward ? 4 : 3};
  }
  Cost operator()(const Reduction& r) const { return {0, r.shape.elements(), 1}; }
  Cost operator()(const Pooling& p) const { return {0, checked_mul(p.windows, p.taps), 1}; }
  Cost operator()(const Softmax& s) const {
    return {0, checked_mul(s.elements, s.backward ? kSoftmaxBackward : kSoftmax), s.product_scratch ? 2 : 1};
  }
  Cost operator()(const NllLoss& n) const { return {0, n.elements, 1}; }
  Cost operator()(const Loss& l) const { return {0, checked_mul(l.elements, l.flops), 2}; }
  Cost operator()(const Lookup& l) const { return {0, l.backward ? checked_product({l.indices, l.features}) : 0, 1}; }
  Cost operator()(const OpaqueKernel& s) const { return {s.macs, s.elementwise_flops, 1, s.recompute_macs}; }
  Cost operator()(const Recurrence& r) const { return {r.macs, 0, 1}; }
  Cost operator()(const DropoutStates&) const { return {}; }  // its kernels run once, not a step
  Cost operator()(const Copy&) const { return {0, 0, 1}; }
  Cost operator()(const Fill&) const { return {0, 0, 1}; }
  Cost operator()(const Resample& r) const { return {0, checked_mul(r.elements, r.taps == 1 ? 0 : 2 * r.taps - 1), 1}; }
  Cost operator()(const Marker&) const { return {}; }
};

}  // namespace

std::int64_t macs(const Convolution& c) { return checked_product({c.n, c.k, c.p, c.q, c.c / c.groups, c.r, c.s}); }

Cost cost(const Primitive& op) { return std::visit(CostOf{}, op); }

Reduction in_memory_order(const Reduction& reduction, const Strides& strides) {
  std::array<int, Shape::kMaxRank> order{};
  const int rank = reduction.shape.rank();
  for (int i = 0; i < rank; ++i) {
    if (strides[i] == 0 && reduction.shape[i] > 1) return reduction;
    order[static_cast<std::size_t>(i)] = i;
  }
  const std::span<int> used(order.data(), static_cast<std::size_t>(rank));
  std::ranges::stable_sort(used, [&](int a, int b) { return strides[a] > strides[b]; });
  Reduction out = reduction;
  out.shape = {};
  out.reduced = 0;
  for (int i = 0; i < rank; ++i) {
    const int from = used[static_cast<std::size_t>(i)];
    out.shape.push_back(reduction.shape[from]);
    if ((reduction.reduced >> from & 1U) != 0) out.reduced |= 1U << i;
  }
  return out;
}

}  // namespace gpuplan
