// Operations of sizes, strides and places in memory that the module's programs do not have.
#include <cmath>
#include <tuple>
#include <utility>

#include "tests/cuda/drawn_operands.h"
#include "tests/cuda/kernel_cases.h"
#include "tests/cuda/module_bench.h"

namespace gpuplan::comparison {

using module_test::Bench;
using module_test::run;
using module_test::transposed;

namespace {

constexpr DType kTypes[] = {DType::fp32, DType::fp16, DType::bf16, DType::fp64};

// One element further in memory, so that no pack of elements is aligned.
KernelTensor shifted(Bench& b, DType type, const std::vector<std::int64_t>& sizes) {
  std::int64_t elements = 1;
  for (const std::int64_t n : sizes) elements *= n;
  KernelTensor t = b.tensor(type, sizes);
  t.data = static_cast<char*>(b.memory((elements + 1) * size_of(type))) + size_of(type);
  return t;
}

// Every second column of a wider tensor.
KernelTensor every_second(Bench& b, DType type, std::vector<std::int64_t> sizes) {
  sizes.back() *= 2;
  KernelTensor t = b.tensor(type, sizes);
  t.sizes[t.rank - 1] /= 2;
  t.strides[t.rank - 1] = 2;
  return t;
}

void odd_pointwise(ComparingDevice& device, DType type) {
  for (const std::vector<std::int64_t>& sizes :
       std::vector<std::vector<std::int64_t>>{{1}, {3}, {37}, {1031}, {7, 13}, {0}, {5, 0, 3}, {3, 1, 5}, {40000}}) {
    Bench b(device);
    const KernelTensor x = b.tensor(type, sizes), y = b.tensor(type, sizes), z = b.tensor(type, sizes);
    const KernelTensor far = shifted(b, type, sizes), gaps = every_second(b, type, sizes);
    const KernelTensor mask = b.tensor(DType::boolean, sizes);
    run(device, {"aten::add", {x, y}, {}, {z}});
    run(device, {"aten::add", {far, y}, {}, {z}});
    run(device, {"aten::mul", {x, y}, {}, {far}});
    run(device, {"aten::mul", {gaps, y}, {}, {z}});
    run(device, {"aten::add_", {gaps, y}, {}, {}});
    run(device, {"aten::gelu", {x}, {}, {z}, {0}});
    run(device, {"aten::gelu_backward", {far, x}, {}, {z}, {1}});
    run(device, {"aten::native_dropout_backward", {x, mask}, {}, {z}, {0.3}});
    run(device, {"aten::to", {far}, {}, {b.tensor(DType::fp32, sizes)}});
    run(device, {"aten::to", {b.tensor(DType::fp32, sizes)}, {}, {far}});
    run(device, {"aten::clone", {gaps}, {}, {z}});
    for (const double mean : {0.0, 1.0}) {
      if (sizes.front() * sizes.back() == 0) continue;
      const KernelTensor scalar = b.tensor(type, {});
      run(device, {"aten::mse_loss", {x, far}, {}, {scalar}, {mean, 1}});
      run(device, {"aten::huber_loss_backward", {scalar, far, y}, {}, {z}, {mean, 0.7}});
    }
  }
}

// Copies whose order of elements changes: through tiles, with edges, between shapes.
void odd_copies(ComparingDevice& device, DType type) {
  Bench b(device);
  for (const auto& [rows, columns] :
       {std::pair<std::int64_t, std::int64_t>{8, 8}, {33, 65}, {1, 40}, {7, 100}, {64, 9}})
    run(device,
        {"aten::clone", {transposed(b.tensor(type, {3, columns, rows}))}, {}, {b.tensor(type, {3, rows, columns})}});
  KernelTensor heads = b.tensor(type, {2, 5, 3, 16});
  std::swap(heads.sizes[1], heads.sizes[2]);
  std::swap(heads.strides[1], heads.strides[2]);
  run(device, {"aten::clone", {heads}, {}, {b.tensor(type, {2, 3, 5, 16})}});
  run(device, {"aten::clone", {heads}, {}, {b.tensor(type, {6, 80})}});  // reshaped
  run(device, {"aten::clone", {b.tensor(type, {2, 3, 5, 7}, true)}, {}, {b.tensor(type, {2, 3, 5, 7})}});
  run(device, {"aten::clone", {b.tensor(type, {2, 3, 5, 7})}, {}, {b.tensor(type, {2, 3, 5, 7}, true)}});
  KernelTensor row = b.tensor(type, {1, 9});
  row.sizes[0] = 4, row.strides[0] = 0;
  run(device, {"aten::clone", {row}, {}, {b.tensor(type, {4, 9})}});
  run(device, {"aten::cat",
               {b.tensor(type, {3, 5}), b.tensor(type, {3, 0}), b.tensor(type, {3, 2})},
               {},
               {b.tensor(type, {3, 7})},
               {1}});
  run(device, {"aten::tril", {b.tensor(type, {3, 37, 37})}, {}, {b.tensor(type, {3, 37, 37})}});
}

// Rows of one element, of fewer than a warp, of several turns of a block; so many that blocks share them.
void odd_rows(ComparingDevice& device, DType type) {
  const DType sums = accumulate_type(type);
  for (const auto& sizes :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {5, 7}, {3, 257}, {2, 5000}, {700, 24}, {1, 4096}}) {
    const std::int64_t rows = sizes.first, columns = sizes.second;
    Bench b(device);
    const auto matrix = [&] { return b.tensor(type, {rows, columns}); };
    const KernelTensor x = matrix(), y = matrix(), z = matrix();
    for (const double dim : {0.0, 1.0}) {
      for (const char* name : {"aten::_softmax", "aten::_log_softmax"}) run(device, {name, {x}, {}, {y}, {dim}});
      for (const char* name : {"aten::_softmax_backward_data", "aten::_log_softmax_backward_data"})
        run(device, {name, {x, y}, {}, {z}, {dim}});
      run(device, {"aten::cumsum", {x}, {}, {y}, {dim}});
    }
    run(device, {"aten::_softmax", {every_second(b, type, {rows, columns})}, {}, {y}, {1}});
    for (const double bits : {1.0, 2.0, 3.0}) {
      std::vector<std::int64_t> kept;
      if (bits == 1.0) kept = {columns};
      if (bits == 2.0) kept = {rows};
      run(device, {"aten::sum", {x}, {}, {b.tensor(type, kept)}, {bits}});
      run(device, {"aten::mean", {every_second(b, type, {rows, columns})}, {}, {b.tensor(type, kept)}, {bits}});
      run(device, {"aten::sum", {transposed(b.tensor(type, {columns, rows}))}, {}, {b.tensor(type, kept)}, {bits}});
    }
    const KernelTensor weight = b.tensor(type, {columns}), bias = b.tensor(type, {columns});
    const KernelTensor mean = b.tensor(sums, {rows, 1}), rstd = b.tensor(sums, {rows, 1});
    LayerNorm work{.rows = rows, .columns = columns, .dtype = type};
    for (const KernelTensor& in : {x, shifted(b, type, {rows, columns})}) {
      run(device, {"aten::native_layer_norm", {in}, {weight, bias}, {y, mean, rstd}, {1e-5}, work});
      run(device, {"aten::_fused_rms_norm", {in}, {weight}, {y, rstd}, {1e-5}, work});
    }
    LayerNorm back = work;
    back.backward = true;
    back.weights = 2;
    const std::vector<KernelTensor> results{z, b.tensor(type, {columns}), b.tensor(type, {columns})};
    run(device, {"aten::native_layer_norm_backward", {y, x, mean, rstd, weight}, results, {}, {}, back});
    run(device, {"aten::native_layer_norm_backward", {y, x, rstd, weight}, {z, results[1]}, {}, {}, back});
    const KernelTensor target = b.tensor(DType::int64, {rows}), loss = b.tensor(type, {}), total = b.tensor(type, {});
    run(device, {"aten::nll_loss_forward", {x, target}, {}, {loss, total}, {2}});
    run(device, {"aten::nll_loss_backward", {loss, x, target, total}, {}, {z}, {2}});
  }
}

// Every row of the table many times: more than a block lists (2,048), and rows that nobody asks for.
void repeated_indices(ComparingDevice& device, DType type) {
  Bench b(device);
  for (const auto& [vocabulary, count, width] :
       {std::tuple<std::int64_t, std::int64_t, std::int64_t>{5, 5000, 3}, {100, 700, 33}, {33, 40, 300}, {1, 9, 1}}) {
    const KernelTensor table = b.tensor(type, {vocabulary, width}), index = b.tensor(DType::int64, {count});
    const KernelTensor rows = b.tensor(type, {count, width});
    run(device, {"aten::embedding", {table, index}, {}, {rows}});
    run(device, {"aten::embedding", {table, b.tensor(DType::int32, {count})}, {}, {rows}});
    run(device, {"aten::embedding_dense_backward", {rows, index}, {}, {b.tensor(type, {vocabulary, width})}});
    run(device, {"aten::_index_put_impl_", {table, rows, index}, {}, {}});
  }
}

struct GroupCase {
  std::int64_t channels, side, count;
};

void groups(ComparingDevice& device, DType type) {
  for (const bool last : {false, true})
    for (const GroupCase& c : {GroupCase{6, 5, 3}, {35, 3, 5}, {48, 1, 48}, {4, 33, 1}}) {
      Bench b(device);
      const auto image = [&] { return b.tensor(type, {3, c.channels, c.side, c.side}, last); };
      const KernelTensor x = image(), y = image(), dx = image();
      const KernelTensor weight = b.tensor(type, {c.channels}), bias = b.tensor(type, {c.channels});
      const KernelTensor mean = b.tensor(type, {3, c.count}), rstd = b.tensor(type, {3, c.count});
      GroupNorm work{.n = 3,
                     .channels = c.channels,
                     .area = c.side * c.side,
                     .groups = c.count,
                     .channels_last = last,
                     .dtype = type};
      run(device, {"aten::native_group_norm", {x}, {weight, bias}, {y, mean, rstd}, {1e-5}, work});
      work.backward = true;
      run(device, {"aten::native_group_norm_backward",
                   {y, x, mean, rstd, weight},
                   {},
                   {dx, b.tensor(type, {c.channels}), b.tensor(type, {c.channels})},
                   {1, 1, 1},
                   work});
    }
}

// instance_norm: every channel of every sample has moments of its own, which backward is given.
void instances(ComparingDevice& device, DType type) {
  for (const auto& [channels, side] : {std::pair<std::int64_t, std::int64_t>{24, 8}, {3, 41}, {7, 1}}) {
    Bench b(device);
    const std::vector<std::int64_t> sizes{1, channels, side, side + 1};
    const DType sums = accumulate_type(type);
    const KernelTensor x = b.tensor(type, sizes), y = b.tensor(type, sizes), dx = b.tensor(type, sizes);
    const KernelTensor weight = b.tensor(type, {channels}), bias = b.tensor(type, {channels});
    const KernelTensor mean = b.tensor(sums, {channels}), invstd = b.tensor(sums, {channels});
    const std::int64_t area = side * (side + 1);
    BatchNorm work{.elements = channels * area, .channels = channels, .rows = area, .accumulate = sums};
    run(device, {"aten::batch_norm", {x}, {weight, bias}, {y, mean, invstd}, {std::nan(""), 1e-5}, work});
    work.backward = true;
    run(device, {"aten::batch_norm_backward",
                 {y, x, mean, invstd, weight},
                 {},
                 {dx, b.tensor(type, {channels}), b.tensor(type, {channels})},
                 {1e-5, 1, 1, 1},
                 work});
  }
}

void images(ComparingDevice& device, DType type) {
  for (const bool last : {false, true}) {
    Bench b(device);
    const auto image = [&](std::int64_t h, std::int64_t w) { return b.tensor(type, {2, 5, h, w}, last); };
    const KernelTensor x = image(11, 9), dx = image(11, 9), y = image(4, 5);
    const KernelTensor at = b.tensor(DType::int64, {2, 5, 4, 5}, last);
    const std::vector<double> window{4, 3, 3, 2, 1, 1, 1, 1};  // (11 + 2 - 4) / 3 + 1 by (9 + 2 - 3) / 2 + 1
    run(device, {"aten::max_pool2d_with_indices", {x}, {}, {y, at}, window});
    run(device, {"aten::max_pool2d_with_indices_backward", {y, x, at}, {}, {dx}, window});
    for (const double padding : {0.0, 1.0}) {
      const std::vector<double> averaged{4, 3, 3, 2, 1, 1, padding, 0};
      run(device, {"aten::avg_pool2d", {x}, {}, {y}, averaged});
      run(device, {"aten::avg_pool2d_backward", {y, x}, {}, {dx}, averaged});
    }
    run(device, {"aten::_adaptive_avg_pool2d", {x}, {}, {image(3, 4)}});
    run(device, {"aten::_adaptive_avg_pool2d_backward", {image(3, 4), x}, {}, {dx}});
    for (const double corners : {0.0, 1.0}) {
      const std::vector<double> steps =
          corners != 0 ? std::vector<double>{10.0 / 16, 8.0 / 22, 1} : std::vector<double>{11.0 / 17, 9.0 / 23, 0};
      run(device, {"aten::upsample_bilinear2d", {x}, {}, {image(17, 23)}, steps});
      run(device, {"aten::upsample_bilinear2d_backward", {image(17, 23)}, {}, {dx}, steps});
    }
    run(device, {"aten::upsample_nearest2d", {x}, {}, {image(17, 23)}, {11.0 / 17, 9.0 / 23, 0}});
    run(device, {"aten::upsample_nearest2d_backward", {image(17, 23)}, {}, {dx}, {11.0 / 17, 9.0 / 23, 0}});
  }
}

void experts(ComparingDevice& device, DType type) {
  Bench b(device);
  const KernelTensor x = b.tensor(type, {45, 37}), weight = b.tensor(type, {5, 33, 37}), y = b.tensor(type, {45, 33});
  const KernelTensor ends = b.tensor(DType::int32, {5});
  run(device, {"aten::_grouped_mm", {x, weight, ends}, {}, {y}, {0}});
  run(device, {"aten::_grouped_mm", {y, weight, ends}, {}, {x}, {1}});
  run(device, {"aten::_grouped_mm", {y, x, ends}, {}, {weight}, {2}});
  run(device, {"aten::topk", {y}, {}, {b.tensor(type, {45, 3}), b.tensor(DType::int64, {45, 3})}, {1}});
}

// Factors and sums whose rows have gaps, or lie column by column.
void products(ComparingDevice& device, DType type) {
  Bench b(device);
  const Gemm work{.m = 5, .n = 7, .k = 3, .dtype = type};
  const KernelTensor x = b.tensor(type, {5, 3}), w = b.tensor(type, {7, 3}), y = b.tensor(type, {5, 7});
  KernelTensor part = b.tensor(type, {5, 12});
  part.sizes[1] = 3;  // of wider rows
  run(device, {"aten::mm", {part, transposed(w)}, {}, {y}, {}, work});
  run(device, {"aten::mm", {transposed(b.tensor(type, {3, 5})), b.tensor(type, {3, 7})}, {}, {y}, {}, work});
  run(device, {"aten::addmm", {x, transposed(w), b.tensor(type, {5, 7})}, {}, {y}, {}, work});
  run(device, {"aten::addmm", {x, transposed(w), b.tensor(type, {7})}, {}, {y}, {}, work});
  run(device, {"aten::mm", {b.tensor(type, {1, 3}), transposed(w)}, {}, {b.tensor(type, {1, 7})}, {}, work});
  run(device, {"aten::mm", {x, b.tensor(type, {3, 1})}, {}, {b.tensor(type, {5, 1})}, {}, work});
  KernelTensor heads = b.tensor(type, {2, 5, 4, 3});  // [heads, L, D] of [L, heads, D]
  heads = {heads.data, type, 3, {4, 5, 3}, {3, 12, 1}};
  run(device, {"aten::bmm", {heads, b.tensor(type, {4, 3, 7})}, {}, {b.tensor(type, {4, 5, 7})}, {}, work});
}

}  // namespace

void compare_cases(ComparingDevice& device) {
  device.draw(Draws::yes);
  for (const DType type : kTypes) {
    odd_pointwise(device, type);
    odd_copies(device, type);
    odd_rows(device, type);
    repeated_indices(device, type);
    groups(device, type);
    instances(device, type);
    images(device, type);
    experts(device, type);
    products(device, type);
  }
  device.draw(Draws::no);
  for (const DType type : kTypes) {
    compare_optimizers(device, type);
    compare_dropout(device, type);
    compare_attention(device, type);
  }
  compare_scaler(device);
}

}  // namespace gpuplan::comparison
