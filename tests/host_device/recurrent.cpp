// Recurrent layers as cuDNN is asked for them, by torch.nn's formulas (torch/nn/modules/rnn.py).
#include "tests/host_device/recurrent.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace gpuplan::host {
namespace {

using cudnn_rnn::Cell;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Sums {
  std::vector<double> of_input, of_state;  // a gate's units after the other
};

// W x + b and U h + c.
Sums sums(const Pass& p, const Values& w, const Values& u, const Values& b, const Values& c, const double* x,
          const double* h) {
  const std::int64_t rows = p.n.gates() * p.n.hidden(), width = p.n.inputs(p.layer), units = p.n.hidden();
  Sums s{b.at, c.at};
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto row = static_cast<std::size_t>(r);
    for (std::int64_t i = 0; i < width; ++i) s.of_input[row] += w[r * width + i] * x[i];
    for (std::int64_t i = 0; i < units; ++i) s.of_state[row] += u[r * units + i] * h[i];
  }
  return s;
}

// One unit's new state; its gates go into `slots`, four of them and an LSTM's memory.
double step(Cell cell, const Sums& s, std::int64_t units, std::int64_t j, double h, double& memory,
            std::array<double, 5>& slots) {
  const auto both = [&](std::int64_t gate) {
    const auto at = static_cast<std::size_t>(gate * units + j);
    return s.of_input[at] + s.of_state[at];
  };
  if (cell == Cell::tanh) return std::tanh(both(0));
  if (cell == Cell::relu) return std::fmax(both(0), 0);
  if (cell == Cell::gru) {
    const auto at = static_cast<std::size_t>(2 * units + j);
    const double r = sigmoid(both(0)), z = sigmoid(both(1)), n = std::tanh(s.of_input[at] + r * s.of_state[at]);
    slots = {r, z, n, s.of_state[at], 0};
    return (1 - z) * n + z * h;
  }
  const double i = sigmoid(both(0)), f = sigmoid(both(1)), g = std::tanh(both(2)), o = sigmoid(both(3));
  memory = f * memory + i * g;
  slots = {i, f, g, o, memory};
  return o * std::tanh(memory);
}

// Runs one direction of a layer on `x`, from the states h and c, which are then the last ones; writes `y` and `slots`.
void forward(const Pass& p, const Values& x, Values& h, Values& c, Values& y, Values& slots) {
  const Layers& n = p.n;
  const Values w = n.matrix(n.space, p.pseudo(), false), u = n.matrix(n.space, p.pseudo(), true);
  const Values of_input = n.bias(n.space, p.pseudo(), false), of_state = n.bias(n.space, p.pseudo(), true);
  for (std::int64_t at = 0; at < n.steps(); ++at)
    for (std::int64_t b = 0; b < n.batch(); ++b) {
      const std::int64_t t = p.time(at);
      const Sums s =
          sums(p, w, u, of_input, of_state, &x.at[static_cast<std::size_t>((t * n.batch() + b) * n.inputs(p.layer))],
               &h.at[static_cast<std::size_t>(p.state(b, 0))]);
      for (std::int64_t j = 0; j < n.hidden(); ++j) {
        std::array<double, 5> made{};
        double none = 0, &memory = c.at.empty() ? none : c[p.state(b, j)];
        h[p.state(b, j)] = step(n.work.stack.cell, s, n.hidden(), j, h[p.state(b, j)], memory, made);
        y[p.result(t, b, j)] = h[p.state(b, j)];
        for (std::int64_t k = 0; k < std::min<std::int64_t>(n.slots(), 5); ++k)
          slots[p.slot(k, t, b, j)] = made[static_cast<std::size_t>(k)];
      }
    }
}

// The weights in one space, of tensors that lie apart from each other.
void pack(const Layers& n, std::span<const KernelTensor> weights) {
  write(flat(n.space, DType::uint8, 0, {weight_space_bytes(n.work.stack)}), zeros({weight_space_bytes(n.work.stack)}));
  const std::int64_t places = n.work.stack.layers * n.directions();
  const auto each = static_cast<std::int64_t>(weights.size()) / places;
  for (std::int64_t i = 0; i < places * each; ++i) {
    const KernelTensor& w = weights[static_cast<std::size_t>(i)];
    const bool recurrent = i % each % 2 == 1, bias = i % each > 1;
    const auto place = weight_place(n.work.stack, i / each, recurrent ? n.gates() : 0);
    write(flat(n.space, n.work.dtype, bias ? place.bias_offset : place.matrix_offset, sizes_of(w)), read(w));
  }
}

// reads x, the weights, the first states; writes y, the last states, [the packed weights], [the reserve]; {dropout}
void run_layers(const Kernel& k) {
  Layers n = layers_of(k);
  const auto states = static_cast<std::size_t>(n.states());
  const std::span<const KernelTensor> weights = k.reads.subspan(1, k.reads.size() - 1 - states);
  const bool keeps_reserve = n.work.training;
  const bool packs = k.writes.size() > 1 + states + (keeps_reserve ? 1 : 0);
  n.space = packs ? k.writes[1 + states] : weights[0];
  if (packs) pack(n, weights);
  std::vector<std::byte> own;  // without a reserve
  n.reserve = k.writes.back();
  if (!keeps_reserve) {
    own.resize(static_cast<std::size_t>(reserve_bytes(n.work.stack, {n.batch(), n.steps(), n.batch() * n.steps()})));
    n.reserve = {.data = own.data(), .dtype = DType::boolean};
  }
  Values x = read(flat(k.reads[0], n.work.dtype, 0, {n.steps(), n.batch(), n.work.stack.input}));
  Values h = read(k.reads[1 + weights.size()]), c = states > 1 ? read(k.reads.back()) : Values{};
  Values y = zeros({n.steps(), n.batch(), n.width()});
  for (std::int64_t layer = 0; layer < n.work.stack.layers; ++layer) {
    const Values in = n.input(layer, x);
    for (std::int64_t d = 0; d < n.directions(); ++d) {
      const Pass p{n, layer, d};
      Values slots = zeros(sizes_of(n.slots_of(p.pseudo())));
      forward(p, in, h, c, y, slots);
      write(n.slots_of(p.pseudo()), slots);
    }
    if (layer + 1 < n.work.stack.layers) write(n.result_of(layer), y);
  }
  write(flat(k.writes[0], n.work.dtype, 0, y.sizes), y);
  write(k.writes[1], h);
  if (states > 1) write(k.writes[2], c);
}

void nothing(const Kernel&) {}

constexpr std::array kOperations{Operation{Operator::_cudnn_init_dropout_state, nothing},
                                 Operation{Operator::_cudnn_rnn, run_layers, 3, 1},
                                 Operation{Operator::_cudnn_rnn_backward_input, recurrent_backward_input, 7, 1},
                                 Operation{Operator::_cudnn_rnn_backward_weight, recurrent_backward_weight, 6, 1}};

}  // namespace

std::span<const Operation> recurrent_operations() { return kOperations; }

}  // namespace gpuplan::host
