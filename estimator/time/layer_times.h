// How long one rank takes for a layer of a GPT, and for the head, of one micro-batch: products on tensor cores,
// everything else at the memory's rate, fused as section 4.2 of arXiv:2104.04473 has it.
#pragma once

#include "estimator/distributed/transformer.h"
#include "estimator/time/gpu_speed.h"

namespace gpuplan {

/// Seconds of the GPU's kernels, and of the host's calls for them.
struct PassSeconds {
  double products = 0, element_wise = 0, host = 0;
};

PassSeconds forward_of_layer(const Transformer& model, const TransformerRun& run, const GpuSpeed& gpu,
                             bool records = true);
PassSeconds backward_of_layer(const Transformer& model, const TransformerRun& run, const GpuSpeed& gpu);

/// The last stage's logits and loss, forward and backward.
double head_seconds(const Transformer& model, const TransformerRun& run, const GpuSpeed& gpu);

/// Gradients of `parameters` copied to fp32, clipped, and Adam's step on a master copy.
double optimizer_seconds(double parameters, const GpuSpeed& gpu);

}  // namespace gpuplan
