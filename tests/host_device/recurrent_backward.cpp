// The gradients of recurrent layers, backwards through time.
#include <algorithm>
#include <array>
#include <cmath>

#include "tests/host_device/recurrent.h"

namespace gpuplan::host {
namespace {

using cudnn_rnn::Cell;

// The gradients of a unit's gates: of the input's side, then of the state's; dh becomes what goes on to the state
// before beside U^T times the latter.
std::array<double, 8> gate_gradients(Cell cell, const std::array<double, 5>& slot, double y, double h_before,
                                     double c_before, double& dh, double& dc) {
  if (cell == Cell::tanh || cell == Cell::relu) {
    const double d = cell == Cell::tanh ? dh * (1 - y * y) : y > 0 ? dh : 0;
    dh = 0;
    return {d, 0, 0, 0, d};
  }
  if (cell == Cell::gru) {
    const auto [r, z, n, of_state, unused] = slot;
    const double dn = dh * (1 - z) * (1 - n * n), dz = dh * (h_before - n) * z * (1 - z);
    const double dr = dn * of_state * r * (1 - r);
    dh *= z;
    return {dr, dz, dn, 0, dr, dz, dn * r};
  }
  const auto [i, f, g, o, memory] = slot;
  const double wide = std::tanh(memory), d_out = dh * wide * o * (1 - o);
  dc += dh * o * (1 - wide * wide);
  const std::array<double, 4> d{dc * g * i * (1 - i), dc * c_before * f * (1 - f), dc * i * (1 - g * g), d_out};
  dc *= f;
  dh = 0;
  return {d[0], d[1], d[2], d[3], d[0], d[1], d[2], d[3]};
}

struct Backward {
  Values h0, c0, dh, dc;  // states: first ones; gradients of the last ones, then of the first
};

// A layer's direction backwards: dy to dx. The slots become the gates' gradients, of the input's side and after them a
// GRU's of the state's side; h_t, of which y is of the layer.
void backward(const Pass& p, const Values& y, const Values& dy, Values& slots, Backward& states, Values& dx) {
  const Layers& n = p.n;
  const Values w = n.matrix(n.space, p.pseudo(), false), u = n.matrix(n.space, p.pseudo(), true);
  const std::int64_t units = n.hidden(), gates = n.gates(), width = n.inputs(p.layer);
  const Cell cell = n.work.stack.cell;
  for (std::int64_t at = n.steps(); at-- > 0;)
    for (std::int64_t b = 0; b < n.batch(); ++b) {
      const std::int64_t t = p.time(at);
      std::vector<double> of_input(static_cast<std::size_t>(gates * units)), of_state = of_input;
      for (std::int64_t j = 0; j < units; ++j) {
        std::array<double, 5> slot{};
        for (std::int64_t s = 0; s < std::min<std::int64_t>(n.slots(), 5); ++s)
          slot[static_cast<std::size_t>(s)] = slots[p.slot(s, t, b, j)];
        const bool first = at == 0;
        const double h = first ? states.h0[p.state(b, j)] : y[p.result(p.time(at - 1), b, j)];
        const bool remembers = cell == Cell::lstm;
        const double c = !remembers ? 0 : first ? states.c0[p.state(b, j)] : slots[p.slot(4, p.time(at - 1), b, j)];
        double none = 0, &dh = states.dh[p.state(b, j)], &dc = remembers ? states.dc[p.state(b, j)] : none;
        dh += dy[p.result(t, b, j)];
        const std::array<double, 8> d = gate_gradients(cell, slot, y[p.result(t, b, j)], h, c, dh, dc);
        for (std::int64_t g = 0; g < gates; ++g) {
          of_input[static_cast<std::size_t>(g * units + j)] = d[static_cast<std::size_t>(g)];
          of_state[static_cast<std::size_t>(g * units + j)] = d[static_cast<std::size_t>(4 + g)];
          slots[p.slot(g, t, b, j)] = d[static_cast<std::size_t>(g)];
        }
        if (cell == Cell::gru) slots[p.slot(3, t, b, j)] = d[6];
      }
      for (std::int64_t r = 0; r < gates * units; ++r) {
        const auto row = static_cast<std::size_t>(r);
        for (std::int64_t i = 0; i < width; ++i)
          dx[(t * n.batch() + b) * width + i] += of_input[row] * w[r * width + i];
        for (std::int64_t i = 0; i < units; ++i) states.dh[p.state(b, i)] += of_state[row] * u[r * units + i];
      }
    }
}

// Of [.., packed weights, reserve] or [.., reserve, first weight] the two.
void find_space(Layers& n, std::span<const KernelTensor> reads) {
  const bool packed = reads.back().dtype == DType::boolean;
  n.space = packed ? reads[reads.size() - 2] : reads.back();
  n.reserve = packed ? reads.back() : reads[reads.size() - 2];
}

// Adds to the gradients of a direction's matrices and biases what the gates' gradients say.
void weight_gradients(const Pass& p, const Values& x, const Values& y, const Values& h0, const KernelTensor& to) {
  const Layers& n = p.n;
  const Values slots = read(n.slots_of(p.pseudo()));
  Values dw = n.matrix(to, p.pseudo(), false), du = n.matrix(to, p.pseudo(), true);
  Values db = n.bias(to, p.pseudo(), false), dc = n.bias(to, p.pseudo(), true);
  const std::int64_t units = n.hidden(), width = n.inputs(p.layer);
  for (std::int64_t at = 0; at < n.steps(); ++at)
    for (std::int64_t b = 0; b < n.batch(); ++b)
      for (std::int64_t r = 0; r < n.gates() * units; ++r) {
        const std::int64_t t = p.time(at), gate = r / units, j = r % units;
        const bool apart = n.work.stack.cell == Cell::gru && gate == 2;
        const double d = slots[p.slot(gate, t, b, j)], of_state = apart ? slots[p.slot(3, t, b, j)] : d;
        for (std::int64_t i = 0; i < width; ++i) dw[r * width + i] += d * x[(t * n.batch() + b) * width + i];
        for (std::int64_t i = 0; i < units; ++i)
          du[r * units + i] += of_state * (at == 0 ? h0[p.state(b, i)] : y[p.result(p.time(at - 1), b, i)]);
        db[r] += d, dc[r] += of_state;
      }
  const auto put = [&](bool recurrent, const Values& matrix, const Values& bias) {
    const auto place = weight_place(n.work.stack, p.pseudo(), recurrent ? n.gates() : 0);
    write(flat(to, n.work.dtype, place.matrix_offset, matrix.sizes), matrix);
    write(flat(to, n.work.dtype, place.bias_offset, bias.sizes), bias);
  };
  put(false, dw, db);
  put(true, du, dc);
}

}  // namespace

// reads x, dy, the gradients of the last states, y, the first states, then as find_space(); writes dx, those of the
// first states
void recurrent_backward_input(const Kernel& k) {
  Layers n = layers_of(k);
  const auto states = static_cast<std::size_t>(n.states());
  find_space(n, k.reads);
  Values y = read(flat(k.reads[2 + states], n.work.dtype, 0, {n.steps(), n.batch(), n.width()}));
  Values dy = read(flat(k.reads[1], n.work.dtype, 0, y.sizes));
  Backward of_states{read(k.reads[3 + states]), {}, read(k.reads[2]), {}};
  if (states > 1) of_states.c0 = read(k.reads[4 + states]), of_states.dc = read(k.reads[3]);
  for (std::int64_t layer = n.work.stack.layers; layer-- > 0;) {
    Values dx = zeros({n.steps(), n.batch(), n.inputs(layer)});
    for (std::int64_t d = 0; d < n.directions(); ++d) {
      const Pass p{n, layer, d};
      Values slots = read(n.slots_of(p.pseudo()));
      backward(p, y, dy, slots, of_states, dx);
      write(n.slots_of(p.pseudo()), slots);
    }
    dy = dx;
    if (layer == 0) break;
    y = read(n.result_of(layer - 1));
    for (std::int64_t i = 0; i < dy.count(); ++i) dy[i] *= n.kept(layer - 1, i);
  }
  write(flat(k.writes[0], n.work.dtype, 0, dy.sizes), dy);
  write(k.writes[1], of_states.dh);
  if (states > 1) write(k.writes[2], of_states.dc);
}

// reads x, y, the first states, then as find_space(), and last the space of the gradients, which it adds to; writes
// copies of the matrices' gradients where there are no biases
void recurrent_backward_weight(const Kernel& k) {
  Layers n = layers_of(k);
  find_space(n, k.reads.first(k.reads.size() - 1));
  const KernelTensor& to = k.reads.back();
  const Values x = read(flat(k.reads[0], n.work.dtype, 0, {n.steps(), n.batch(), n.work.stack.input}));
  const Values last = read(flat(k.reads[1], n.work.dtype, 0, {n.steps(), n.batch(), n.width()}));
  const Values h0 = read(k.reads[2]);
  for (std::int64_t layer = 0; layer < n.work.stack.layers; ++layer) {
    const Values in = n.input(layer, x);
    const Values y = layer + 1 < n.work.stack.layers ? read(n.result_of(layer)) : last;
    for (std::int64_t d = 0; d < n.directions(); ++d) weight_gradients({n, layer, d}, in, y, h0, to);
  }
  for (std::size_t i = 0; i < k.writes.size(); ++i)
    write(k.writes[i], n.matrix(to, static_cast<std::int64_t>(i / 2), i % 2 == 1));
}

}  // namespace gpuplan::host
