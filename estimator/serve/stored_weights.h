// How engines store the weights of layers, by the names of formats.
#pragma once

#include <cstdint>
#include <string_view>

#include "estimator/serve/serving_engine.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

struct StoredWeights {
  double bits = 16;       // an element of a layer's products, with its scales
  double head_bits = 16;  // of the head
  // Products of so many rows or more unpack their weights to half precision first; 0: they never do.
  std::int64_t unpacked_from = 0;
  bool slow_products = false;  // PaceModel::unpacking holds of them
  // int8 and fp8: products multiply these by these where tensor cores can.
  WeightFormat multiplied = WeightFormat::as_computed;
  double calls = 0;  // of the host, of a product beside its own: what its wrapper does in PyTorch

  bool packed() const { return bits < 16; }
};

/// fp16, bf16, fp8, int8, int4:awq and int4:gptq of all; nf4 and int8:bnb of transformers; f16, q8_0, q4_0, q4_K_M and
/// mxfp4 of llama.cpp. Throws Error for others.
StoredWeights stored_weights(ServingEngine engine, std::string_view name);

}  // namespace gpuplan
