// What recurrent layers' operations share: where cuDNN's weight space and the reserve have what is looked for. Forward
// puts each layer's gates into the reserve, and the states of all layers but the last; backward replaces the gates by
// their gradients, which those of the weights are made of.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/operators/primitive.h"
#include "tests/host_device/operation.h"
#include "validate/executor/random.h"

namespace gpuplan::host {

inline KernelTensor flat(const KernelTensor& t, DType dtype, std::int64_t byte, std::vector<std::int64_t> sizes) {
  KernelTensor f;
  f.data = static_cast<std::byte*>(t.data) + byte;
  f.dtype = dtype;
  f.rank = static_cast<std::int32_t>(sizes.size());
  std::int64_t step = 1;
  for (int i = f.rank; i-- > 0;)
    f.sizes[i] = sizes[static_cast<std::size_t>(i)], f.strides[i] = step, step *= f.sizes[i];
  return f;
}

/// Sizes, and where things are.
struct Layers {
  const Recurrence& work;
  double dropout;
  std::uint64_t seed;
  KernelTensor space, reserve;

  std::int64_t steps() const { return work.steps; }
  std::int64_t batch() const { return work.batch; }
  std::int64_t hidden() const { return work.stack.hidden; }
  std::int64_t directions() const { return work.stack.directions(); }
  std::int64_t width() const { return directions() * hidden(); }  // of a layer's result
  std::int64_t gates() const { return cudnn_rnn::gates(work.stack.cell); }
  std::int64_t states() const { return work.stack.cell == cudnn_rnn::Cell::lstm ? 2 : 1; }
  std::int64_t inputs(std::int64_t layer) const { return layer == 0 ? work.stack.input : width(); }
  // Values of the reserve for a layer's step, sample, direction and unit.
  std::int64_t slots() const {
    return work.stack.cell == cudnn_rnn::Cell::lstm ? 5 : work.stack.cell == cudnn_rnn::Cell::gru ? 6 : 1;
  }

  Values matrix(const KernelTensor& of, std::int64_t pseudo, bool recurrent) const {
    const auto place = weight_place(work.stack, pseudo, recurrent ? gates() : 0);
    return read(flat(of, work.dtype, place.matrix_offset, {gates() * place.rows, place.columns}));
  }
  Values bias(const KernelTensor& of, std::int64_t pseudo, bool recurrent) const {
    const auto place = weight_place(work.stack, pseudo, recurrent ? gates() : 0);
    return read(flat(of, work.dtype, place.bias_offset, {gates() * hidden()}));
  }
  KernelTensor slots_of(std::int64_t pseudo) const {
    const std::int64_t values = slots() * steps() * batch() * hidden();
    return flat(reserve, work.dtype, pseudo * values * size_of(work.dtype), {slots(), steps(), batch(), hidden()});
  }
  KernelTensor result_of(std::int64_t layer) const {
    const std::int64_t all = work.stack.layers * directions() * slots() * steps() * batch() * hidden();
    const std::int64_t before = layer * steps() * batch() * width();
    return flat(reserve, work.dtype, (all + before) * size_of(work.dtype), {steps(), batch(), width()});
  }
  // What the dropout after a layer multiplies element i of its result by.
  double kept(std::int64_t layer, std::int64_t i) const {
    if (dropout <= 0) return 1;
    const auto element = static_cast<std::uint64_t>(layer * steps() * batch() * width() + i);
    return keeps(seed, element, dropout) ? 1 / (1 - dropout) : 0;
  }
  // A layer's input: x, or the dropped result of the one before.
  Values input(std::int64_t layer, const Values& x) const {
    if (layer == 0) return x;
    Values h = read(result_of(layer - 1));
    for (std::int64_t i = 0; i < h.count(); ++i) h[i] *= kept(layer - 1, i);
    return h;
  }
};

/// Throws Error where they project.
inline Layers layers_of(const Kernel& k) {
  const auto& work = std::get<Recurrence>(*k.what);
  if (work.stack.projects()) throw Error("projections are not computed on the host");
  return {work, k.number(Attribute::dropout), k.seed, {}, {}};
}

/// What one direction of a layer goes through: its steps, forwards or backwards.
struct Pass {
  const Layers& n;
  std::int64_t layer, direction;
  std::int64_t pseudo() const { return layer * n.directions() + direction; }
  std::int64_t time(std::int64_t step) const { return direction == 0 ? step : n.steps() - 1 - step; }
  std::int64_t slot(std::int64_t s, std::int64_t t, std::int64_t b, std::int64_t j) const {
    return ((s * n.steps() + t) * n.batch() + b) * n.hidden() + j;
  }
  std::int64_t result(std::int64_t t, std::int64_t b, std::int64_t j) const {
    return (t * n.batch() + b) * n.width() + direction * n.hidden() + j;
  }
  std::int64_t state(std::int64_t b, std::int64_t j) const { return (pseudo() * n.batch() + b) * n.hidden() + j; }
};

/// Operations of recurrent_backward.cpp.
void recurrent_backward_input(const Kernel& k);
void recurrent_backward_weight(const Kernel& k);

}  // namespace gpuplan::host
