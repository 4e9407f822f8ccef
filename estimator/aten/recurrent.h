// torch.lstm, gru, rnn_tanh and rnn_relu over sequences of one length, by cuDNN (aten/src/ATen/native/cudnn/RNN.cpp).
#pragma once

#include <span>
#include <vector>

#include "estimator/graph/layer.h"
#include "estimator/operators/cudnn_rnn.h"

namespace gpuplan::aten {

struct Recurrent {
  cudnn_rnn::Stack stack;  // value_bytes: of the weights
  bool batch_first = false;
  bool bias = true;
  double dropout = 0;  // probability
};

/// PyTorch gives bf16 to cuDNN from here on (pull request 164411); before, it runs a few kernels of its own a step.
constexpr PyTorchVersion kBfloat16ByCudnn = 210;

/// Whether nn.RNNBase.flatten_parameters moves weights of this type into one storage
/// (torch/backends/cudnn/__init__.py, CUDNN_TENSOR_DTYPES). cuDNN is given a copy in one storage of others, each time.
constexpr bool flattens(DType weights) { return weights != DType::bf16; }

/// Where each weight lies in cuDNN's weight space, in elements, in the order of the module's: of every layer and
/// direction weight_ih, weight_hh, bias_ih, bias_hh unless it has none, and weight_hr where it projects.
std::vector<std::int64_t> weight_offsets(const Recurrent& r);

/// y and the last states. `states`: the first ones, h and for an LSTM c; `weights`: in the order of the module's.
/// Throws Error where sizes do not fit in 64 bits.
std::vector<TensorId> recurrent(LayerBuilder& b, const Recurrent& r, TensorId x, std::span<const TensorId> weights,
                                std::span<const TensorId> states);

}  // namespace gpuplan::aten
