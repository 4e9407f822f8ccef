// cuDNN's recurrent layers: descriptors, and the sizes and places that nn.LSTM, nn.GRU and nn.RNN ask for.
#include <cstdint>
#include <numeric>
#include <vector>

#include "estimator/operators/cudnn_rnn.h"
#include "validate/shadow/runtime/cudnn_abi.h"
#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow::cudnn {
namespace {

using cudnn_rnn::Cell;

/// A cudnnRNNDescriptor_t: what decides sizes, and the rest.
struct Rnn {
  cudnn_rnn::Stack stack;
  int type = 0;  // cudnnDataType_t
  int math_precision = 0, math_type = 0;
  unsigned flags = 0;
};

/// A cudnnRNNDataDescriptor_t.
struct RnnData {
  int type = 0;
  int layout = 0;  // cudnnRNNDataLayout_t
  int steps = 0, batch = 0, features = 0;
  std::vector<int> lengths;  // steps of each sequence
};

bool valid(int cell, int bias, int type, int input, int hidden, int projection, int layers) {
  return cell >= 0 && cell <= static_cast<int>(Cell::gru) && bias >= 0 &&
         bias <= static_cast<int>(cudnn_rnn::Bias::recurrent) && type_bytes(type) > 0 && input > 0 && hidden > 0 &&
         projection > 0 && projection <= hidden && layers > 0;
}

/// [1, rows, columns], packed, as cuDNN describes a matrix or a bias.
void describe_matrix(Tensor& tensor, int type, std::int64_t rows, std::int64_t columns) {
  tensor = {.type = type, .rank = 3};
  tensor.dimensions = {1, static_cast<int>(rows), static_cast<int>(columns)};
  pack(tensor, 0);
}

void place(void** address, Tensor* tensor, const void* base, const Rnn& rnn, std::int64_t offset, std::int64_t rows,
           std::int64_t columns) {
  const bool there = rows > 0 && columns > 0;
  if (address != nullptr) {
    *address = !there || base == nullptr ? nullptr : static_cast<char*>(const_cast<void*>(base)) + offset;
  }
  if (tensor != nullptr && there) describe_matrix(*tensor, rnn.type, rows, columns);
  if (tensor != nullptr && !there) *tensor = {};
}

}  // namespace
}  // namespace gpuplan::shadow::cudnn

namespace {

using namespace gpuplan::shadow::cudnn;

}  // namespace

SHADOW_CUDNN_DESCRIPTOR(RNN, Rnn)
SHADOW_CUDNN_DESCRIPTOR(RNNData, RnnData)

SHADOW_API int cudnnSetRNNDescriptor_v8(Rnn* rnn, int algorithm, int cell, int bias, int direction, int input_mode,
                                        int type, int math_precision, int math_type, std::int32_t input,
                                        std::int32_t hidden, std::int32_t projection, std::int32_t layers,
                                        const Dropout* dropout, std::uint32_t flags) {
  if (rnn == nullptr || !valid(cell, bias, type, input, hidden, projection, layers)) {
    return fail(kBadParam, "cudnnSetRNNDescriptor_v8: not a recurrent layer");
  }
  constexpr int kBidirectional = 1, kSkipInput = 1, kPersistStatic = 1;  // CUDNN_RNN_ALGO_PERSIST_STATIC
  constexpr std::uint32_t kPaddedIo = 1;                                 // CUDNN_RNN_PADDED_IO_ENABLED
  *rnn = {.stack = {.cell = static_cast<Cell>(cell),
                    .bias = static_cast<gpuplan::cudnn_rnn::Bias>(bias),
                    .bidirectional = direction == kBidirectional,
                    .skip_input = input_mode == kSkipInput,
                    .persistent = algorithm == kPersistStatic,
                    .dropout = dropout != nullptr && dropout->probability > 0,
                    .padded_io = (flags & kPaddedIo) != 0,
                    .value_bytes = static_cast<std::int64_t>(type_bytes(type)),
                    .input = input,
                    .hidden = hidden,
                    .projection = projection,
                    .layers = layers},
          .type = type,
          .math_precision = math_precision,
          .math_type = math_type,
          .flags = flags};
  return kSuccess;
}

SHADOW_API int cudnnRNNSetClip_v8(Rnn* rnn, int /*mode*/, int /*nan_propagation*/, double /*low*/, double /*high*/) {
  return rnn == nullptr ? fail(kBadParam, "cudnnRNNSetClip_v8: no descriptor") : kSuccess;
}

SHADOW_API int cudnnRNNSetClip_v9(Rnn* rnn, int /*mode*/, double /*low*/, double /*high*/) {
  return rnn == nullptr ? fail(kBadParam, "cudnnRNNSetClip_v9: no descriptor") : kSuccess;
}

SHADOW_API int cudnnBuildRNNDynamic(const Handle* handle, const Rnn* rnn, int /*batch*/) {
  return handle == nullptr || rnn == nullptr ? fail(kBadParam, "cudnnBuildRNNDynamic: null") : kSuccess;
}

SHADOW_API int cudnnSetRNNDataDescriptor(RnnData* data, int type, int layout, int steps, int batch, int features,
                                         const int* lengths, const void* /*padding*/) {
  if (data == nullptr || lengths == nullptr || type_bytes(type) == 0 || steps < 1 || batch < 1 || features < 1) {
    return fail(kBadParam, "cudnnSetRNNDataDescriptor: not a batch of sequences");
  }
  for (int i = 0; i < batch; ++i) {
    if (lengths[i] < 0 || lengths[i] > steps) {
      return fail(kBadParam, "cudnnSetRNNDataDescriptor: a sequence longer than the longest");
    }
  }
  *data = {type, layout, steps, batch, features, std::vector<int>(lengths, lengths + batch)};
  return kSuccess;
}

SHADOW_API int cudnnGetRNNDataDescriptor(const RnnData* data, int* type, int* layout, int* steps, int* batch,
                                         int* features, int wanted, int* lengths, void* /*padding*/) {
  if (data == nullptr) return fail(kBadParam, "cudnnGetRNNDataDescriptor: no descriptor");
  if (type != nullptr) *type = data->type;
  if (layout != nullptr) *layout = data->layout;
  if (steps != nullptr) *steps = data->steps;
  if (batch != nullptr) *batch = data->batch;
  if (features != nullptr) *features = data->features;
  for (int i = 0; lengths != nullptr && i < wanted && i < data->batch; ++i) {
    lengths[i] = data->lengths[static_cast<std::size_t>(i)];
  }
  return kSuccess;
}

SHADOW_API int cudnnGetRNNWeightSpaceSize(const Handle* /*handle*/, const Rnn* rnn, std::size_t* size) {
  if (rnn == nullptr || size == nullptr) return fail(kBadParam, "cudnnGetRNNWeightSpaceSize: null");
  *size = static_cast<std::size_t>(weight_space_bytes(rnn->stack));
  return kSuccess;
}

SHADOW_API int cudnnGetRNNWeightParams(const Handle* /*handle*/, const Rnn* rnn, std::int32_t pseudo_layer,
                                       std::size_t size, const void* space, std::int32_t linear, Tensor* matrix,
                                       void** matrix_address, Tensor* bias, void** bias_address) {
  if (rnn == nullptr || pseudo_layer < 0 || pseudo_layer >= rnn->stack.layers * rnn->stack.directions() || linear < 0 ||
      linear > 2 * gates(rnn->stack.cell) || size < static_cast<std::size_t>(weight_space_bytes(rnn->stack))) {
    return fail(kBadParam, "cudnnGetRNNWeightParams: no such matrix");
  }
  const gpuplan::cudnn_rnn::WeightPlace at = weight_place(rnn->stack, pseudo_layer, linear);
  place(matrix_address, matrix, space, *rnn, at.matrix_offset, at.rows, at.columns);
  place(bias_address, bias, space, *rnn, at.bias_offset, at.bias_values, 1);
  return kSuccess;
}

SHADOW_API int cudnnGetRNNTempSpaceSizes(const Handle* /*handle*/, const Rnn* rnn, int mode, const RnnData* data,
                                         std::size_t* workspace, std::size_t* reserve) {
  if (rnn == nullptr || data == nullptr) return fail(kBadParam, "cudnnGetRNNTempSpaceSizes: null");
  gpuplan::shadow::note_unknown("cuDNN RNN: workspace and reserve by the rule that cuDNN 9.19 answers by on an H200");
  constexpr int kForwardTraining = 1;  // CUDNN_FWD_MODE_TRAINING
  const std::int64_t tokens = std::accumulate(data->lengths.begin(), data->lengths.end(), std::int64_t{0});
  const gpuplan::shadow::GpuDescription& gpu = gpuplan::shadow::settings().gpu;
  const gpuplan::cudnn_rnn::Sequences x{data->batch, data->steps, tokens};
  const bool training = mode == kForwardTraining;
  const std::int64_t work = workspace_bytes(rnn->stack, 10 * gpu.major + gpu.minor, x, training);
  if (workspace != nullptr) *workspace = static_cast<std::size_t>(work);
  if (reserve != nullptr) *reserve = training ? static_cast<std::size_t>(reserve_bytes(rnn->stack, x)) : 0;
  return kSuccess;
}
