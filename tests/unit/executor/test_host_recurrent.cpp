// Recurrent layers on the host device: against PyTorch's LSTM, GRU and RNN in double precision on a CPU, and central
// differences.
#include <doctest/doctest.h>

#include "tests/host_device/finite_differences.h"

namespace gpuplan::host {
namespace {

using cudnn_rnn::Cell;

// Everything that one call is given and makes; the weights in one space.
struct Recurrent {
  Recurrence work;
  Block x, h0, c0, space, y, hy, cy, reserve;
  double dropout = 0;
  bool remembers() const { return work.stack.cell == Cell::lstm; }
};

Recurrent recurrent(Cell cell, bool bidirectional, double dropout) {
  constexpr std::int64_t kSteps = 3, kBatch = 2;
  Recurrence work;
  work.steps = kSteps;
  work.batch = kBatch;
  work.dtype = DType::fp64;
  work.stack = {.cell = cell,
                .bidirectional = bidirectional,
                .dropout = dropout > 0,
                .value_bytes = 8,
                .input = 3,
                .hidden = 2,
                .projection = 2,
                .layers = 2};
  const std::vector<std::int64_t> state{2 * work.stack.directions(), kBatch, 2};
  const std::vector<std::int64_t> result{kSteps, kBatch, 2 * work.stack.directions()};
  return {work,
          random_block({kSteps, kBatch, 3}, 1),
          random_block(state, 2),
          random_block(state, 3),
          random_block({weight_space_bytes(work.stack) / 8}, 7),
          Block(result),
          Block(state),
          Block(state),
          Block({reserve_bytes(work.stack, {kBatch, kSteps, kBatch * kSteps})}, DType::boolean),
          dropout};
}

void forward(const Recurrent& r) {
  std::vector<KernelTensor> reads{r.x, r.space, r.h0}, writes{r.y, r.hy};
  if (r.remembers()) reads.emplace_back(r.c0), writes.emplace_back(r.cy);
  writes.emplace_back(r.reserve);
  run("_cudnn_rnn", {reads, writes, {r.dropout}, r.work, {}, 5});
}

// Sums of all elements, of the elements times their numbers, and those of the last state.
struct Sums {
  double all = 0, numbered = 0, state = 0;
};
Sums sums(const Recurrent& r) {
  Sums s;
  for (std::int64_t i = 0; i < r.y.count(); ++i) {
    s.all += r.y.get(i);
    s.numbered += r.y.get(i) * static_cast<double>(i + 1);
  }
  for (std::int64_t i = 0; i < r.hy.count(); ++i) s.state += r.hy.get(i) * static_cast<double>(i + 1);
  return s;
}

TEST_CASE("recurrent layers compute what PyTorch's do") {
  // torch.nn.LSTM(3, 2, 2) and so on of PyTorch 2.8 in double, its weights, x and states those of random_block().
  struct Case {
    Cell cell;
    bool bidirectional;
    Sums expected;
  };
  for (const Case& c : {Case{Cell::relu, false, {0.10374847716998437, 0.2021354308135127, 1.5795668693558704}},
                        {Cell::relu, true, {11.934053266927451, 177.19724201654256, 54.40964881099411}},
                        {Cell::tanh, false, {-8.364864572210045, -69.41233494244511, -33.820113025337925}},
                        {Cell::tanh, true, {-4.918870460298279, -52.50310230853654, -10.27122253395967}},
                        {Cell::lstm, false, {-1.4621399263717334, -4.642369800769649, 1.30916674192207}},
                        {Cell::lstm, true, {1.5889358118526653, 28.763104342433934, 4.503944770464405}},
                        {Cell::gru, false, {0.20944889180309256, -7.431810648206339, 0.9569987601325827}},
                        {Cell::gru, true, {-2.5370308106720536, -31.58648911006891, 13.074668459785183}}}) {
    CAPTURE(static_cast<int>(c.cell));
    CAPTURE(c.bidirectional);
    const Recurrent r = recurrent(c.cell, c.bidirectional, 0);
    forward(r);
    const Sums s = sums(r);
    CHECK(s.all == doctest::Approx(c.expected.all).epsilon(1e-12));
    CHECK(s.numbered == doctest::Approx(c.expected.numbered).epsilon(1e-12));
    CHECK(s.state == doctest::Approx(c.expected.state).epsilon(1e-12));
  }
}

void check_gradients(Cell cell, bool bidirectional, double dropout) {
  CAPTURE(static_cast<int>(cell));
  CAPTURE(bidirectional);
  Recurrent r = recurrent(cell, bidirectional, dropout);
  Block w(r.y), none(r.h0), dx(r.x), dh(r.h0), dc(r.c0), dspace(r.space);
  const Block like_y = random_block({3, 2, 2 * r.work.stack.directions()}, 4);
  for (std::int64_t i = 0; i < w.count(); ++i) w.set(i, like_y.get(i));
  for (std::int64_t i = 0; i < none.count(); ++i) none.set(i, 0);
  for (std::int64_t i = 0; i < dspace.count(); ++i) dspace.set(i, 0);
  forward(r);
  Recurrence backward = r.work;
  backward.backward = true;
  const std::vector<double> numbers{dropout};
  std::vector<KernelTensor> reads{r.x, w, none}, writes{dx, dh};
  if (r.remembers()) reads.emplace_back(none), writes.emplace_back(dc);
  reads.insert(reads.end(), {r.y, r.h0});
  if (r.remembers()) reads.emplace_back(r.c0);
  reads.insert(reads.end(), {r.reserve, r.space});
  run("_cudnn_rnn_backward_input", {reads, writes, numbers, backward, {}, 5});
  std::vector<KernelTensor> given{r.x, r.y, r.h0};
  if (r.remembers()) given.emplace_back(r.c0);
  given.insert(given.end(), {r.reserve, r.space, dspace});
  run("_cudnn_rnn_backward_weight", {given, {}, numbers, backward, {}, 5});
  const auto again = [&] { forward(r); };
  CHECK(gradient_error(again, r.y, w, r.x, dx) <= kGradientError);
  CHECK(gradient_error(again, r.y, w, r.h0, dh) <= kGradientError);
  if (r.remembers()) CHECK(gradient_error(again, r.y, w, r.c0, dc) <= kGradientError);
  CHECK(gradient_error(again, r.y, w, r.space, dspace) <= kGradientError);
}

TEST_CASE("... and their gradients are central differences, with dropout between layers too") {
  for (const Cell cell : {Cell::tanh, Cell::relu, Cell::lstm, Cell::gru})
    for (const bool bidirectional : {false, true}) check_gradients(cell, bidirectional, bidirectional ? 0.4 : 0);
}

}  // namespace
}  // namespace gpuplan::host
