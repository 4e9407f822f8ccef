// Recurrent layers. What they read: estimator/operators/operators.inc.
#include <array>
#include <variant>

#include "validate/cuda/check.h"
#include "validate/cuda/kernels/copy.h"
#include "validate/cuda/operation.h"
#include "validate/cuda/recurrences.h"

namespace gpuplan::cuda {
namespace {

const Recurrence* work(const Kernel& k) { return k.what == nullptr ? nullptr : std::get_if<Recurrence>(k.what); }

RecurrentArguments arguments_of(const Kernel& k) { return {k.number(Attribute::dropout), k.tf32}; }

std::size_t states_of(const Recurrence& what) { return what.stack.cell == cudnn_rnn::Cell::lstm ? 2 : 1; }

std::int64_t bytes_of(const KernelTensor& reserve) { return reserve.rank == 1 ? reserve.sizes[0] : 0; }

void* workspace(const Machine& m, const Kernel& k) {
  const std::int64_t bytes = m.recurrences.workspace_bytes(*work(k), arguments_of(k));
  void* data = scratch_of(k, bytes);
  // The plan's rule may be short by 224 bytes; PyTorch's blocks are whole multiples of 512.
  for (const KernelScratch& s : k.scratch)
    if (data == nullptr && (s.bytes + 511) / 512 * 512 >= bytes) data = s.data;
  if (data == nullptr && bytes > 0) fail("the plan has no workspace of " + std::to_string(bytes) + " bytes");
  return data;
}

// The parts of a layer and direction's weights in PyTorch's order.
std::span<const WeightPart> parts_of(std::size_t count) {
  using enum WeightPart;
  static constexpr std::array kBiased{input, state, input_bias, state_bias, projection};
  static constexpr std::array kPlain{input, state, projection};
  return count < 4 ? std::span(kPlain).first(count) : std::span(kBiased).first(count);
}

std::size_t places(const Recurrence& what) {
  return static_cast<std::size_t>(what.stack.layers * what.stack.directions());
}

// Calls f(tensor, its place in the space) for the weights or their gradients.
template <class F>
void each_part(const Machine& m, const Kernel& k, std::span<const KernelTensor> tensors, void* space, F&& f) {
  const Recurrence& what = *work(k);
  const std::span<const WeightPart> parts = parts_of(tensors.size() / places(what));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    KernelTensor place = tensors[i];
    std::int64_t step = 1;
    for (int d = place.rank; d-- > 0;) place.strides[d] = step, step *= place.sizes[d];
    place.data = m.recurrences.weight_part(what, arguments_of(k), space, static_cast<std::int64_t>(i / parts.size()),
                                           parts[i % parts.size()]);
    f(tensors[i], place);
  }
}

void clear(const Machine& m, void* space, std::int64_t bytes) {
  check(cudaMemsetAsync(space, 0, static_cast<std::size_t>(bytes), m.launch.stream), "cudaMemsetAsync");
}

void run_states(const Machine& m, const Kernel& k) {
  if (k.scratch.empty()) return;  // made before
  m.recurrences.make_dropout_states(m.launch, k.scratch[0].data, k.scratch[0].bytes, k.seed);
}

// reads x, the weights, the first states; writes y, the last states, [the packed weights], [the reserve]
void run_forward(const Machine& m, const Kernel& k) {
  const Recurrence& what = *work(k);
  const std::size_t states = states_of(what);
  const auto weights = k.reads.subspan(1, k.reads.size() - 1 - states);
  const bool packs = k.writes.size() > 1 + states + (what.training ? 1 : 0);
  RecurrentTensors t;
  t.x = k.reads[0].data;
  t.hx = k.reads[1 + weights.size()].data;
  t.y = k.writes[0].data;
  t.hy = k.writes[1].data;
  if (states > 1) t.cx = k.reads.back().data, t.cy = k.writes[2].data;
  if (what.training) t.reserve = k.writes.back().data, t.reserve_bytes = bytes_of(k.writes.back());
  t.weights = packs ? k.writes[1 + states].data : weights[0].data;
  if (packs) {
    clear(m, t.weights, m.recurrences.weight_bytes(what, arguments_of(k)));
    each_part(m, k, weights, t.weights,
              [&](const KernelTensor& weight, const KernelTensor& place) { copy(m.launch, weight, place); });
  }
  m.recurrences.forward(m.launch, what, arguments_of(k), t, workspace(m, k));
}

// Of [.., packed weights, reserve] or [.., reserve, first weight] the two.
void find_space(RecurrentTensors& t, std::span<const KernelTensor> reads) {
  const KernelTensor &last = reads.back(), &before = reads[reads.size() - 2];
  const bool packed = last.dtype == DType::boolean;
  t.weights = packed ? before.data : last.data;
  t.reserve = packed ? last.data : before.data;
}

// reads x, dy, the gradients of the last states, y, the first states, then as find_space(); writes dx, those of the
// first states
void run_backward_input(const Machine& m, const Kernel& k) {
  const Recurrence& what = *work(k);
  const std::size_t states = states_of(what);
  RecurrentTensors t;
  t.x = k.reads[0].data;
  t.dy = k.reads[1].data;
  t.dhy = k.reads[2].data;
  t.y = k.reads[2 + states].data;
  t.hx = k.reads[3 + states].data;
  t.dx = k.writes[0].data;
  t.dhx = k.writes[1].data;
  if (states > 1) t.dcy = k.reads[3].data, t.cx = k.reads[4 + states].data, t.dcx = k.writes[2].data;
  find_space(t, k.reads);
  m.recurrences.backward_input(m.launch, what, arguments_of(k), t, workspace(m, k));
}

// reads x, y, the first states, then as find_space(), and last the space of the gradients, which it adds to; writes
// copies of the gradients where there are no biases
void run_backward_weight(const Machine& m, const Kernel& k) {
  RecurrentTensors t;
  t.x = k.reads[0].data;
  t.y = k.reads[1].data;
  t.hx = k.reads[2].data;
  find_space(t, k.reads.first(k.reads.size() - 1));
  t.dweights = k.reads.back().data;
  m.recurrences.backward_weight(m.launch, *work(k), arguments_of(k), t, workspace(m, k));
  if (k.writes.empty()) return;
  each_part(m, k, k.writes, t.dweights,
            [&](const KernelTensor& gradient, const KernelTensor& place) { copy(m.launch, place, gradient); });
}

std::string refuse_layers(const Kernel& k, std::size_t reads) {
  if (work(k) == nullptr) return "the plan does not say which layers";
  if (!k.has(Attribute::dropout)) return "the plan does not say how much is dropped";
  return k.reads.size() < reads ? "the plan does not give all tensors" : "";
}

std::string refuse_forward(const Kernel& k) { return refuse_layers(k, 3); }
std::string refuse_backward_input(const Kernel& k) { return refuse_layers(k, 7); }
std::string refuse_backward_weight(const Kernel& k) { return refuse_layers(k, 6); }

constexpr std::array kOperations{
    Operation{Operator::_cudnn_init_dropout_state, run_states},
    Operation{Operator::_cudnn_rnn, run_forward, refuse_forward},
    Operation{Operator::_cudnn_rnn_backward_input, run_backward_input, refuse_backward_input},
    Operation{Operator::_cudnn_rnn_backward_weight, run_backward_weight, refuse_backward_weight}};
static_assert(is_whole_family(kOperations, OperatorFamily::recurrent));

}  // namespace

std::span<const Operation> recurrent_operations() { return kOperations; }

}  // namespace gpuplan::cuda
