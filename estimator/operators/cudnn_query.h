// The queries that PyTorch makes to cuDNN for the convolutions and recurrent layers of a graph.
#pragma once

#include "estimator/operators/cudnn_workspace.h"
#include "estimator/operators/primitive.h"

namespace gpuplan {

/// The same sizes, type, layout and pass.
CudnnConvolution cudnn_query(const Convolution& convolution);

/// Bytes that the recurrent layers' workspace takes while they run, with the algorithm that PyTorch asks for on this
/// GPU (aten/src/ATen/native/cudnn/RNN.cpp, get_algo).
std::int64_t recurrence_workspace_bytes(const Recurrence& recurrence, const Gpu& gpu);

}  // namespace gpuplan
