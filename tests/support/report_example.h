// A report filled in by hand, for the writers: a two-stage convolutional net with round numbers that add up.
#pragma once

#include "estimator/plan/report.h"

namespace gpuplan::tests {

inline LayerRow layer_row(std::string name, std::string_view type, int line, Shape in, Shape out) {
  LayerRow row;
  row.name = std::move(name);
  row.type = type;
  row.file = "net.yaml";
  row.line = line;
  row.column = 5;
  row.input_shapes = {in};
  row.output_shape = out;
  row.output_bytes = out.elements() * 4;
  return row;
}

/// Four layers at batch 2: a 3x3 convolution without bias, batch norm, ReLU (in place) and a linear head.
inline std::vector<LayerRow> example_layers() {
  LayerRow conv = layer_row("stage1.conv", "Conv2d", 8, {2, 3, 32, 32}, {2, 16, 32, 32});
  conv.parameters = 432;                        // 16 * 3 * 3 * 3
  conv.forward_macs = 2LL * 32 * 32 * 432;      // 884,736
  conv.backward_flops = 2 * conv.forward_macs;  // dW only: the input needs no gradient
  conv.saved_bytes = 0;                         // its input is the batch
  LayerRow norm = layer_row("stage1.bn", "BatchNorm2d", 9, {2, 16, 32, 32}, {2, 16, 32, 32});
  norm.parameters = 32;
  norm.saved_bytes = 131072 + 128;  // its input, and mean and inverse deviation of 16 channels
  norm.elementwise_flops = 5 * 32768;
  LayerRow relu = layer_row("stage1.relu", "ReLU", 10, {2, 16, 32, 32}, {2, 16, 32, 32});
  relu.saved_bytes = 131072;
  relu.elementwise_flops = 32768;
  LayerRow head = layer_row("head", "Linear", 11, {2, 16384}, {2, 10});
  head.parameters = 163850;
  head.forward_macs = 2LL * 163840;
  head.backward_flops = 4 * head.forward_macs;
  return {conv, norm, relu, head};
}

inline Report example_report() {
  Report r;
  r.model.name = "net";
  r.model.file = "net.yaml";
  r.model.parameters = r.model.trainable_parameters = 164314;
  r.model.buffers = 33;
  r.model.layers = 4;
  r.run.batch = 2;
  r.run.optimizer.kind = OptimizerKind::adam;
  r.bytes.parameters = r.bytes.gradients = 657256;
  r.bytes.buffers = 136;
  r.bytes.optimizer_state = 1314512;
  r.bytes.inputs = 24592;
  r.bytes.saved_for_backward = 262272;
  r.tensor_peak.bytes = 3000320;
  r.tensor_peak.phase = Phase::backward;
  r.tensor_peak.op = r.tensor_peak.layer = "stage1.bn";
  r.peak.reading = {.requested_bytes = 3000000, .allocated_bytes = 3000320, .reserved_bytes = 25165824};
  r.peak.context_bytes = 512LL << 20;
  r.peak.device_bytes = r.peak.reading.reserved_bytes + r.peak.context_bytes;
  r.peak.phase = Phase::backward;
  r.peak.op = "BatchNorm2d";
  r.peak.layer = "stage1.bn";
  r.peak.parts = {{Category::parameters, 658432, Confidence::exact},
                  {Category::buffers, 1536, Confidence::exact},
                  {Category::gradients, 655872, Confidence::exact},
                  {Category::optimizer_state, 1316864, Confidence::exact},
                  {Category::inputs, 25088, Confidence::exact},
                  {Category::activations, 210944, Confidence::exact},
                  {Category::activation_gradients, 131072, Confidence::exact},
                  {Category::scratch, 512, Confidence::modelled}};
  r.peak.modules = {{"stage1", 342016}};
  r.phases = {{true, Phase::start, {2000000, 2001920, 25165824}, {2600000, 2657792, 25165824}, 0},
              {true, Phase::forward, {2300000, 2301440, 25165824}, {2400000, 2401280, 25165824}, 5},
              {true, Phase::backward, {2700000, 2701312, 25165824}, {3000000, 3000320, 25165824}, 9},
              {true, Phase::optimizer, {2657256, 2657792, 25165824}, {2657256, 2657792, 25165824}, 4}};
  r.compute.forward_macs = 1212416;
  r.compute.forward_flops = 2424832;
  r.compute.backward_flops = 3080192;
  r.compute.step_flops = 5505024;
  r.allocator.segments = 3;
  r.allocator.allocations = 120;
  r.layers = example_layers();
  r.timeline = {{Phase::forward, 2100000, 2100000},  {Phase::forward, 2300000, 2401280},
                {Phase::loss, 2301440, 2301440},     {Phase::backward, 2900000, 3000320},
                {Phase::backward, 2701312, 2800000}, {Phase::optimizer, 2657792, 2657792}};
  return r;
}

/// A device with 1 GiB (fits) unless told otherwise.
inline Gpu example_gpu(std::int64_t memory_bytes = 1LL << 30) {
  Gpu gpu;
  gpu.name = "tiny";
  gpu.title = "Tiny 1GB";
  gpu.memory_bytes = memory_bytes;
  if (memory_bytes > 0) gpu.cuda_total_bytes = memory_bytes;
  return gpu;
}

}  // namespace gpuplan::tests
