#include "validate/cuda/recurrences.h"

#include <array>
#include <vector>

#include "validate/cuda/check.h"
#include "validate/cuda/cudnn_types.h"

namespace gpuplan::cuda {

// What cuDNN is told of a call. Made for each: it takes no device memory and little time.
struct Recurrences::Descriptors {
  cudnnRNNDescriptor_t rnn = nullptr;
  cudnnRNNDataDescriptor_t x = nullptr, y = nullptr;
  cudnnTensorDescriptor_t h = nullptr, c = nullptr;
  std::size_t weight_bytes = 0, work_bytes = 0, reserve_bytes = 0;

  Descriptors(Recurrences& owner, const Recurrence& what, const RecurrentArguments& arguments);
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;
  ~Descriptors();

 private:
  void create();
  void describe(cudnnDropoutDescriptor_t dropout, const Recurrence& what, bool tf32);
};

namespace {

cudnnRNNMode_t mode(cudnn_rnn::Cell cell) {
  switch (cell) {
    case cudnn_rnn::Cell::relu: return CUDNN_RNN_RELU;
    case cudnn_rnn::Cell::tanh: return CUDNN_RNN_TANH;
    case cudnn_rnn::Cell::gru: return CUDNN_GRU;
    case cudnn_rnn::Cell::lstm: break;
  }
  return CUDNN_LSTM;
}

void set_sequences(cudnnRNNDataDescriptor_t descriptor, const Recurrence& what, std::int64_t features) {
  const std::vector<int> lengths(static_cast<std::size_t>(what.batch), static_cast<int>(what.steps));
  double padding = 0;  // of any type
  check(cudnnSetRNNDataDescriptor(descriptor, data_type(what.dtype), CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED,
                                  static_cast<int>(what.steps), static_cast<int>(what.batch),
                                  static_cast<int>(features), lengths.data(), &padding),
        "cudnnSetRNNDataDescriptor");
}

void set_states(cudnnTensorDescriptor_t descriptor, const Recurrence& what, std::int64_t features) {
  const std::array<int, 3> sizes{static_cast<int>(what.stack.layers * what.stack.directions()),
                                 static_cast<int>(what.batch), static_cast<int>(features)};
  const std::array<int, 3> strides{sizes[1] * sizes[2], sizes[2], 1};
  check(cudnnSetTensorNdDescriptor(descriptor, data_type(what.dtype), 3, sizes.data(), strides.data()),
        "cudnnSetTensorNdDescriptor");
}

cudnnForwardMode_t forward_mode(const Recurrence& what) {
  return what.training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE;
}

}  // namespace

void Recurrences::Descriptors::create() {
  check(cudnnCreateRNNDescriptor(&rnn), "cudnnCreateRNNDescriptor");
  check(cudnnCreateRNNDataDescriptor(&x), "cudnnCreateRNNDataDescriptor");
  check(cudnnCreateRNNDataDescriptor(&y), "cudnnCreateRNNDataDescriptor");
  check(cudnnCreateTensorDescriptor(&h), "cudnnCreateTensorDescriptor");
  check(cudnnCreateTensorDescriptor(&c), "cudnnCreateTensorDescriptor");
}

void Recurrences::Descriptors::describe(cudnnDropoutDescriptor_t dropout, const Recurrence& what, bool tf32) {
  const cudnn_rnn::Stack& s = what.stack;
  const bool half = what.dtype == DType::fp16 || what.dtype == DType::bf16;
  const cudnnDataType_t precision = what.dtype == DType::fp64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  // The default one may round fp32 to TF32.
  const cudnnMathType_t math = half                                 ? CUDNN_TENSOR_OP_MATH
                               : what.dtype == DType::fp32 && !tf32 ? CUDNN_FMA_MATH
                                                                    : CUDNN_DEFAULT_MATH;
  check(cudnnSetRNNDescriptor_v8(rnn, CUDNN_RNN_ALGO_STANDARD, mode(s.cell), CUDNN_RNN_DOUBLE_BIAS,
                                 s.bidirectional ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT,
                                 data_type(what.dtype), precision, math, static_cast<std::int32_t>(s.input),
                                 static_cast<std::int32_t>(s.hidden), static_cast<std::int32_t>(s.projection),
                                 static_cast<std::int32_t>(s.layers), dropout, CUDNN_RNN_PADDED_IO_ENABLED),
        "cudnnSetRNNDescriptor_v8");
}

Recurrences::Descriptors::Descriptors(Recurrences& owner, const Recurrence& what, const RecurrentArguments& arguments) {
  const bool drops = what.training && arguments.dropout > 0;
  if (drops && owner.states_ == nullptr) fail("dropout without random states");
  if (drops)
    check(cudnnRestoreDropoutDescriptor(owner.dropout_, owner.handle_, static_cast<float>(arguments.dropout),
                                        owner.states_, static_cast<std::size_t>(owner.states_bytes_), owner.seed_),
          "cudnnRestoreDropoutDescriptor");
  create();
  describe(drops ? owner.dropout_ : nullptr, what, arguments.tf32);
  set_sequences(x, what, what.stack.input);
  set_sequences(y, what, what.stack.directions() * what.stack.projection);
  set_states(h, what, what.stack.projection);
  set_states(c, what, what.stack.hidden);
  check(cudnnGetRNNWeightSpaceSize(owner.handle_, rnn, &weight_bytes), "cudnnGetRNNWeightSpaceSize");
  check(cudnnGetRNNTempSpaceSizes(owner.handle_, rnn, forward_mode(what), x, &work_bytes, &reserve_bytes),
        "cudnnGetRNNTempSpaceSizes");
}

Recurrences::Descriptors::~Descriptors() {
  if (rnn != nullptr) (void)cudnnDestroyRNNDescriptor(rnn);
  for (cudnnRNNDataDescriptor_t d : {x, y})
    if (d != nullptr) (void)cudnnDestroyRNNDataDescriptor(d);
  for (cudnnTensorDescriptor_t d : {h, c})
    if (d != nullptr) (void)cudnnDestroyTensorDescriptor(d);
}

Recurrences::Recurrences(cudnnHandle_t handle) : handle_(handle) {
  check(cudnnCreateDropoutDescriptor(&dropout_), "cudnnCreateDropoutDescriptor");
}

Recurrences::~Recurrences() { (void)cudnnDestroyDropoutDescriptor(dropout_); }

void Recurrences::make_dropout_states(const LaunchContext& launch, void* states, std::int64_t bytes,
                                      std::uint64_t seed) {
  check(cudnnSetStream(handle_, launch.stream), "cudnnSetStream");
  std::size_t needed = 0;
  check(cudnnDropoutGetStatesSize(handle_, &needed), "cudnnDropoutGetStatesSize");
  if (static_cast<std::int64_t>(needed) > bytes)
    fail("the random states take " + std::to_string(needed) + " bytes, the plan has " + std::to_string(bytes));
  check(cudnnSetDropoutDescriptor(dropout_, handle_, 0.5F, states, static_cast<std::size_t>(bytes), seed),
        "cudnnSetDropoutDescriptor");
  states_ = states;
  states_bytes_ = bytes;
  seed_ = seed;
}

std::int64_t Recurrences::workspace_bytes(const Recurrence& what, const RecurrentArguments& arguments) {
  return static_cast<std::int64_t>(Descriptors(*this, what, arguments).work_bytes);
}

std::int64_t Recurrences::weight_bytes(const Recurrence& what, const RecurrentArguments& arguments) {
  return static_cast<std::int64_t>(Descriptors(*this, what, arguments).weight_bytes);
}

void* Recurrences::weight_part(const Recurrence& what, const RecurrentArguments& arguments, void* space,
                               std::int64_t pseudo_layer, WeightPart part) {
  const Descriptors d(*this, what, arguments);
  const std::int64_t gates = cudnn_rnn::gates(what.stack.cell);
  const std::int64_t linear = part == WeightPart::projection                                ? 2 * gates
                              : part == WeightPart::state || part == WeightPart::state_bias ? gates
                                                                                            : 0;
  void *matrix = nullptr, *bias = nullptr;
  check(cudnnGetRNNWeightParams(handle_, d.rnn, static_cast<std::int32_t>(pseudo_layer), d.weight_bytes, space,
                                static_cast<std::int32_t>(linear), d.h, &matrix, d.c, &bias),
        "cudnnGetRNNWeightParams");
  return part == WeightPart::input_bias || part == WeightPart::state_bias ? bias : matrix;
}

void Recurrences::forward(const LaunchContext& launch, const Recurrence& what, const RecurrentArguments& arguments,
                          const RecurrentTensors& t, void* workspace) {
  const Descriptors d(*this, what, arguments);
  if (what.training && t.reserve_bytes < static_cast<std::int64_t>(d.reserve_bytes))
    fail("the reserve takes " + std::to_string(d.reserve_bytes) + " bytes, the plan has " +
         std::to_string(t.reserve_bytes));
  check(cudnnSetStream(handle_, launch.stream), "cudnnSetStream");
  check(cudnnRNNForward(handle_, d.rnn, forward_mode(what), nullptr, d.x, t.x, d.y, t.y, d.h, t.hx, t.hy, d.c, t.cx,
                        t.cy, d.weight_bytes, t.weights, d.work_bytes, workspace, what.training ? d.reserve_bytes : 0,
                        t.reserve),
        "cudnnRNNForward");
}

void Recurrences::backward_input(const LaunchContext& launch, const Recurrence& what,
                                 const RecurrentArguments& arguments, const RecurrentTensors& t, void* workspace) {
  const Descriptors d(*this, what, arguments);
  check(cudnnSetStream(handle_, launch.stream), "cudnnSetStream");
  check(cudnnRNNBackwardData_v8(handle_, d.rnn, nullptr, d.y, t.y, t.dy, d.x, t.dx, d.h, t.hx, t.dhy, t.dhx, d.c, t.cx,
                                t.dcy, t.dcx, d.weight_bytes, t.weights, d.work_bytes, workspace, d.reserve_bytes,
                                t.reserve),
        "cudnnRNNBackwardData_v8");
}

void Recurrences::backward_weight(const LaunchContext& launch, const Recurrence& what,
                                  const RecurrentArguments& arguments, const RecurrentTensors& t, void* workspace) {
  const Descriptors d(*this, what, arguments);
  check(cudnnSetStream(handle_, launch.stream), "cudnnSetStream");
  check(cudnnRNNBackwardWeights_v8(handle_, d.rnn, CUDNN_WGRAD_MODE_ADD, nullptr, d.x, t.x, d.h, t.hx, d.y, t.y,
                                   d.weight_bytes, t.dweights, d.work_bytes, workspace, d.reserve_bytes, t.reserve),
        "cudnnRNNBackwardWeights_v8");
}

}  // namespace gpuplan::cuda
