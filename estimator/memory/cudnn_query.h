// A convolution of a graph as the question that is put to cuDNN's heuristics.
#pragma once

#include "estimator/graph/primitive.h"
#include "estimator/memory/cudnn_workspace.h"

namespace gpuplan {

/// The same sizes, type, layout and pass.
CudnnConvolution cudnn_query(const Convolution& convolution);

}  // namespace gpuplan
