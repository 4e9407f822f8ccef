// Prints the worked example of every layer as JSON, for tests/torch/layers.sh.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "layers/catalog.h"

int main() {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const gpuplan::LayerDef* const layer : gpuplan::make_catalog()) {
    const gpuplan::LayerExample& example = layer->example;
    list.push_back({{"layer", layer->name},
                    {"loss", layer->loss},
                    {"call", example.call},
                    {"input_shapes", example.input_shapes},
                    {"input_dtype", gpuplan::name_of(example.input_dtype)},
                    {"output_shape", example.output_shape},
                    {"parameters", example.parameters},
                    {"forward_macs", example.forward_macs},
                    {"backward_macs", example.backward_macs},
                    {"saved_bytes", example.saved_bytes}});
  }
  std::puts(list.dump(1).c_str());
}
