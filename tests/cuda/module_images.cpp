// Operations of images: convolutions, normalisation, pooling and resampling.
#include <cmath>

#include "tests/cuda/module_bench.h"

namespace gpuplan::module_test {

void convolutions(Device& device, DType type, bool last) {
  Bench b(device);
  Convolution c{.n = 2,
                .c = 8,
                .h = 16,
                .w = 16,
                .k = 16,
                .p = 16,
                .q = 16,
                .r = 3,
                .s = 3,
                .pad_h = 1,
                .pad_w = 1,
                .channels_last = last,
                .dtype = type};
  const KernelTensor x = b.tensor(type, {2, 8, 16, 16}, last), w = b.tensor(type, {16, 8, 3, 3}, last);
  const KernelTensor y = b.tensor(type, {2, 16, 16, 16}, last);
  const std::vector<KernelScratch> scratch{{b.memory(64 << 20), 64 << 20}};
  run(device, {"aten::convolution", {x, w}, {}, {y}, {}, c, scratch});
  c.pass = ConvolutionPass::backward_data;
  run(device, {"aten::convolution_backward", {y, w}, {}, {x}, {}, c, scratch});
  c.pass = ConvolutionPass::backward_filter;
  run(device, {"aten::convolution_backward", {y, x}, {}, {w}, {}, c, scratch});
}

void normalizations(Device& device, DType type) {
  Bench b(device);
  const DType sums = accumulate_type(type);
  for (const bool last : {false, true}) {
    const KernelTensor x = b.tensor(type, {4, 32, 8, 8}, last), y = b.tensor(type, {4, 32, 8, 8}, last);
    const KernelTensor dx = b.tensor(type, {4, 32, 8, 8}, last);
    const auto channels = [&](DType t) { return b.tensor(t, {32}); };
    const KernelTensor weight = channels(sums), bias = channels(sums), mean = channels(sums), invstd = channels(sums);
    const KernelTensor running_mean = channels(sums), running_variance = channels(sums);
    const std::vector<KernelTensor> extra{weight, bias, running_mean, running_variance};
    const std::vector<KernelTensor> saved{weight, mean, invstd, running_mean, running_variance};
    const std::vector<KernelTensor> gradients{dx, channels(sums), channels(sums)};
    for (const bool cudnn : {false, true}) {
      BatchNorm work{.elements = 8192, .channels = 32, .rows = 256, .cudnn = cudnn, .accumulate = sums};
      run(device, {"aten::batch_norm", {x}, extra, {y, mean, invstd}, {0.1, 1e-5}, work});
      run(device, {"aten::batch_norm", {x}, {weight, bias}, {y, mean, invstd}, {std::nan(""), 1e-5}, work});
      work.backward = true;
      run(device, {"aten::cudnn_batch_norm_backward", {x, y, weight}, saved, gradients, {1e-5}, work});
      run(device, {"aten::native_batch_norm_backward", {y, x}, saved, gradients, {1e-5}, work});
      work.training = false;
      work.backward = false;
      run(device, {"aten::batch_norm", {x}, extra, {y}, {0.1, 1e-5}, work});
    }
  }
  const KernelTensor rows = b.tensor(type, {6, 7, 64}), out = b.tensor(type, {6, 7, 64}),
                     grad = b.tensor(type, {6, 7, 64});
  const KernelTensor weight = b.tensor(type, {64}), bias = b.tensor(type, {64});
  const KernelTensor mean = b.tensor(sums, {6, 7, 1}), rstd = b.tensor(sums, {6, 7, 1});
  LayerNorm work{.rows = 42, .columns = 64, .dtype = type};
  run(device, {"aten::native_layer_norm", {rows}, {weight, bias}, {out, mean, rstd}, {1e-5}, work});
  run(device, {"aten::_fused_rms_norm", {rows}, {weight}, {out, rstd}, {1e-5}, work});
  work.backward = true;
  work.weights = 2;
  const std::vector<KernelTensor> results{out, b.tensor(type, {64}), b.tensor(type, {64})};
  run(device, {"aten::native_layer_norm_backward", {grad, rows, mean, rstd, weight}, results, {}, {}, work});
  run(device, {"aten::native_layer_norm_backward", {grad, rows, rstd, weight}, results, {}, {}, work});
}

void group_normalizations(Device& device, DType type) {
  Bench b(device);
  for (const bool last : {false, true}) {
    const KernelTensor x = b.tensor(type, {4, 48, 8, 8}, last), y = b.tensor(type, {4, 48, 8, 8}, last);
    const KernelTensor dx = b.tensor(type, {4, 48, 8, 8}, last);
    const KernelTensor weight = b.tensor(type, {48}), bias = b.tensor(type, {48});
    const KernelTensor mean = b.tensor(type, {4, 6}), rstd = b.tensor(type, {4, 6});
    GroupNorm work{.n = 4, .channels = 48, .area = 64, .groups = 6, .channels_last = last, .dtype = type};
    run(device, {"aten::native_group_norm", {x}, {weight, bias}, {y, mean, rstd}, {1e-5}, work});
    work.backward = true;
    const std::vector<KernelTensor> reads{y, x, mean, rstd, weight};
    run(device, {"aten::native_group_norm_backward", reads, {}, {dx, weight, bias}, {1, 1, 1}, work});
    run(device, {"aten::native_group_norm_backward", reads, {}, {weight}, {0, 1, 0}, work});
  }
  const DType sums = accumulate_type(type);
  const KernelTensor x = b.tensor(type, {1, 24, 8, 8}), y = b.tensor(type, {1, 24, 8, 8});
  const KernelTensor scale = b.tensor(type, {24}), mean = b.tensor(sums, {24}), invstd = b.tensor(sums, {24});
  BatchNorm work{.elements = 1536, .channels = 24, .rows = 64, .accumulate = sums};
  run(device, {"aten::batch_norm", {x}, {scale, scale}, {y, mean, invstd}, {std::nan(""), 1e-5}, work});
  work.backward = true;
  run(device, {"aten::batch_norm_backward",
               {y, x, mean, invstd, scale},
               {},
               {b.tensor(type, {1, 24, 8, 8}), scale, scale},
               {1e-5, 1, 1, 1},
               work});
}

void pooling(Device& device, DType type, bool last) {
  Bench b(device);
  const KernelTensor x = b.tensor(type, {2, 8, 16, 16}, last), y = b.tensor(type, {2, 8, 8, 8}, last);
  const KernelTensor at = b.tensor(DType::int64, {2, 8, 8, 8}, last), dx = b.tensor(type, {2, 8, 16, 16}, last);
  const std::vector<double> window{3, 3, 2, 2, 1, 1, 1, 1};
  run(device, {"aten::max_pool2d_with_indices", {x}, {}, {y, at}, window});
  run(device, {"aten::max_pool2d_with_indices_backward", {y, x, at}, {}, {dx}, window});
  const KernelTensor mean = b.tensor(type, {2, 8, 1, 1});
  run(device, {"aten::_adaptive_avg_pool2d", {x}, {}, {mean}, {}});
  run(device, {"aten::_adaptive_avg_pool2d_backward", {mean, x}, {}, {dx}, {}});
  const std::vector<double> averaged{2, 2, 2, 2, 0, 0, 1, 0};
  run(device, {"aten::avg_pool2d", {x}, {}, {y}, averaged});
  run(device, {"aten::avg_pool2d_backward", {y, x}, {}, {dx}, averaged});
  const KernelTensor large = b.tensor(type, {2, 8, 32, 40}, last);
  const std::vector<double> steps{0.5, 0.4, 0};
  for (const std::string name : {"aten::upsample_nearest2d", "aten::upsample_bilinear2d"}) {
    run(device, {name, {x}, {}, {large}, steps});
    run(device, {name + "_backward", {large}, {}, {dx}, steps});
  }
}

}  // namespace gpuplan::module_test
