// What an engine runs for a decoder layer beside its products: bytes that element-wise kernels move, kernels, and calls
// of the host.
#pragma once

#include "estimator/serve/served_model.h"
#include "estimator/serve/stored_weights.h"

namespace gpuplan {

struct LayerKernels {
  double bytes = 0;                                    // that element-wise kernels move, of one token
  double kernels = 0;                                  // of the layer, in one step
  double calls = 0;                                    // of the host that are no products
  double products = 0;                                 // calls that are
  double calls_an_expert = 0, products_an_expert = 0;  // beside these, of each expert that tokens visit
  double cache_passes = 1;                             // that a step makes over the cache of what was before
  double score_bytes = 0;                              // moved of one score where attention is not fused
};

/// `layer` in half precision (llama.cpp: fp32 between its products).
LayerKernels layer_kernels(const ServedLayer& layer, ServingEngine engine);

}  // namespace gpuplan
