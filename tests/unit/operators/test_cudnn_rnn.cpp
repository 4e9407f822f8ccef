// Recurrent layers of cuDNN. Sizes are what cuDNN 9.10.2 and 9.26.0 answered alike (cudnnGetRNNTempSpaceSizes,
// cudnnGetRNNWeightSpaceSize, cudnnGetRNNWeightParams), asked on a machine with no GPU, with a GPU's properties in the
// handle; with padded input and output, what cuDNN 9.19 answered on an H200
// (tests/reference/h200/questions/rnn.tsv.gz).
#include "estimator/operators/cudnn_rnn.h"

#include <doctest/doctest.h>

namespace gpuplan::cudnn_rnn {
namespace {

struct Answer {
  int capability;  // major * 10 + minor
  Stack stack;
  Sequences x;
  std::int64_t weights, inference, training, reserve;
};

Stack lstm(std::int64_t layers, bool bidirectional = false) {
  return {.bidirectional = bidirectional, .input = 64, .hidden = 128, .projection = 128, .layers = layers};
}

Stack with(Stack stack, Cell cell) {
  stack.cell = cell;
  return stack;
}

Stack dropping(Stack stack) {
  stack.dropout = true;
  return stack;
}

Stack projecting(Stack stack) {
  stack.projection = 32;
  return stack;
}

Stack half(Stack stack) {
  stack.value_bytes = 2;
  return stack;
}

Stack persistent(Stack stack) {
  stack.persistent = true;
  return stack;
}

const Sequences kEven{.batch = 8, .steps = 20, .tokens = 160};
const Sequences kRagged{.batch = 8, .steps = 20, .tokens = 63};

const Answer kAnswers[] = {
    {90, lstm(1), kEven, 397312, 9134336, 9134336, 409856},
    {90, lstm(2), kEven, 925696, 18071808, 18071808, 901376},
    {80, lstm(2), kEven, 925696, 1294592, 1294592, 901376},
    {86, lstm(2, true), kEven, 2375680, 37028096, 37028096, 1802496},
    {75, with(lstm(2), Cell::gru), kEven, 694272, 17735936, 17735936, 1065216},
    {90, with(lstm(1, true), Cell::gru), kEven, 595968, 18227456, 18227456, 983296},
    {90, with(lstm(1), Cell::tanh), kEven, 99328, 8573184, 8655104, 82176},
    {90, with(lstm(2), Cell::relu), kEven, 231424, 17096960, 17178880, 246016},
    {90, projecting(lstm(2)), kEven, 368640, 17596672, 17596672, 1106176},
    {90, projecting(lstm(2, true)), kEven, 868352, 35684608, 35684608, 2212096},
    {90, dropping(lstm(2)), kEven, 925696, 18153728, 18153728, 903936},
    {90, dropping(lstm(3, true)), kEven, 3956736, 55443712, 55443712, 2806016},
    {90, half(lstm(2)), kEven, 462848, 17424640, 17424640, 450816},
    {90, persistent(lstm(2)), kEven, 925696, 19366144, 19366144, 901376},
    {90, lstm(1), kRagged, 397312, 8935680, 8935680, 161536},
};

TEST_CASE("a recurrent layer's spaces are cuDNN's") {
  for (const Answer& a : kAnswers) {
    CAPTURE(&a - kAnswers);
    CHECK(weight_space_bytes(a.stack) == a.weights);
    CHECK(workspace_bytes(a.stack, a.capability, a.x, false) == a.inference);
    CHECK(workspace_bytes(a.stack, a.capability, a.x, true) == a.training);
    CHECK(reserve_bytes(a.stack, a.x) == a.reserve);
  }
}

TEST_CASE("with padded input and output the workspace is what an H200's cuDNN asks for") {
  struct Row {
    Cell cell;
    bool bidirectional, dropout;
    std::int64_t value_bytes, input, hidden, projection, layers, batch, steps;
    bool training;
    std::int64_t workspace;
  };
  const Row rows[] = {
      {Cell::lstm, false, false, 4, 256, 512, 512, 2, 20, 35, true, 40161696},
      {Cell::lstm, false, false, 4, 256, 512, 512, 2, 20, 35, false, 40161696},
      {Cell::lstm, false, false, 4, 512, 512, 512, 1, 64, 128, true, 118883072},
      {Cell::gru, false, false, 2, 512, 512, 512, 2, 64, 128, true, 67240704},
      {Cell::gru, false, false, 4, 1024, 64, 64, 3, 32, 100, true, 67445248},
      {Cell::relu, false, true, 4, 256, 512, 512, 2, 20, 35, true, 27247008},
      {Cell::tanh, true, false, 4, 650, 650, 650, 2, 32, 100, true, 169264544},
      {Cell::lstm, true, true, 4, 512, 256, 128, 3, 32, 100, true, 130351616},
      {Cell::lstm, false, false, 2, 512, 256, 128, 4, 256, 16, true, 60295424},
      {Cell::relu, false, false, 4, 1024, 64, 64, 2, 1, 50, true, 17744160},
  };
  for (const Row& r : rows) {
    CAPTURE(&r - rows);
    const Stack stack{.cell = r.cell,
                      .bidirectional = r.bidirectional,
                      .dropout = r.dropout,
                      .padded_io = true,
                      .value_bytes = r.value_bytes,
                      .input = r.input,
                      .hidden = r.hidden,
                      .projection = r.projection,
                      .layers = r.layers};
    const Sequences x{.batch = r.batch, .steps = r.steps, .tokens = r.batch * r.steps};
    CHECK(workspace_bytes(stack, 90, x, r.training) == r.workspace);
  }
}

TEST_CASE("a recurrent layer's weights lie one behind the other, biases last") {
  // nn.LSTM(64, 128, 2): cudnnGetRNNWeightParams.
  const WeightPlace recurrent = weight_place(lstm(2), 1, 7);
  CHECK(recurrent.matrix_offset == 851968);
  CHECK(recurrent.rows == 128);
  CHECK(recurrent.columns == 128);
  CHECK(recurrent.bias_offset == 925184);
  // nn.LSTM(64, 128, 2, proj_size=32): the ninth matrix projects, without a bias.
  const WeightPlace projection = weight_place(projecting(lstm(2)), 1, 8);
  CHECK(projection.matrix_offset == 344064);
  CHECK(projection.rows == 32);
  CHECK(projection.columns == 128);
  CHECK(projection.bias_values == 0);
  // nn.RNN(64, 128, 2, bidirectional=True)
  CHECK(weight_place(with(lstm(2, true), Cell::tanh), 3, 0).matrix_offset == 393216);
  CHECK(weight_place(with(lstm(2, true), Cell::tanh), 3, 0).columns == 256);
  Stack plain = lstm(2);
  plain.bias = Bias::none;
  CHECK(weight_space_bytes(plain) == 917504);
  CHECK(weight_place(plain, 0, 0).bias_values == 0);
}

TEST_CASE("every weight of a recurrent layer has a place of its own in the weight space") {
  for (const Answer& a : kAnswers) {
    CAPTURE(&a - kAnswers);
    const auto bytes = a.stack.value_bytes;
    std::int64_t sum = 0;
    for (std::int64_t layer = 0; layer < a.stack.layers * a.stack.directions(); ++layer) {
      for (std::int64_t linear = 0; linear <= 2 * gates(a.stack.cell); ++linear) {
        const WeightPlace at = weight_place(a.stack, layer, linear);
        const std::int64_t matrix = at.rows * at.columns * bytes, bias = at.bias_values * bytes;
        CHECK(at.matrix_offset + matrix <= a.weights);
        CHECK(at.bias_offset + bias <= a.weights);
        sum += matrix + bias;
      }
    }
    CHECK(sum == a.weights);
  }
}

}  // namespace
}  // namespace gpuplan::cudnn_rnn
