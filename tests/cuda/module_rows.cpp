// Operations of rows and sequences: sums, products, lookups, experts, attention, recurrent layers.
#include "tests/cuda/module_bench.h"

namespace gpuplan::module_test {

void reductions(Device& device, DType type) {
  Bench b(device);
  const KernelTensor x = b.tensor(type, {64, 32, 8, 16}), y = b.tensor(type, {64, 32, 8, 16});
  for (const char* name : {"aten::sum", "aten::mean"}) {
    run(device, {name, {x}, {}, {b.tensor(type, {})}, {15}});
    run(device, {name, {x}, {}, {b.tensor(type, {32})}, {13}});
    run(device, {name, {x}, {}, {b.tensor(type, {64, 32, 8})}, {8}});
    run(device, {name, {x}, {}, {b.tensor(type, {1, 32, 8, 16})}, {1}});
  }
  const KernelTensor flat = b.tensor(type, {4096, 64});
  run(device, {"aten::sum", {flat}, {}, {b.tensor(type, {64})}, {1}});
  for (const double dim : {1.0, 3.0}) {
    run(device, {"aten::_softmax", {x}, {}, {y}, {dim}});
    run(device, {"aten::_safe_softmax", {x}, {}, {y}, {dim}});
    run(device, {"aten::_log_softmax", {x}, {}, {y}, {dim}});
    run(device, {"aten::_softmax_backward_data", {x, y}, {}, {x}, {dim}});
    run(device, {"aten::_log_softmax_backward_data", {x, y}, {}, {x}, {dim}});
  }
  for (const std::int64_t length : {1030, 2048, 9000}) {  // rows that begin anywhere, are held, are too long for that
    const KernelTensor row = b.tensor(type, {3, length}), result = b.tensor(type, {3, length});
    run(device, {"aten::_softmax", {row}, {}, {result}, {1}});
    run(device, {"aten::_softmax_backward_data", {row, result}, {}, {row}, {1}});
  }
  const KernelTensor log_p = b.tensor(type, {16, 10}), scalar = b.tensor(type, {}), weight = b.tensor(type, {});
  const KernelTensor target = b.tensor(DType::int64, {16});
  run(device, {"aten::nll_loss_forward", {log_p, target}, {}, {scalar, weight}, {-100}});
  run(device, {"aten::nll_loss_backward", {scalar, log_p, target, weight}, {}, {b.tensor(type, {16, 10})}, {-100}});
  const KernelTensor pixels = b.tensor(DType::int64, {64, 8, 16});
  run(device, {"aten::nll_loss2d_forward", {x, pixels}, {}, {scalar, weight}, {-100}});
  run(device, {"aten::nll_loss2d_backward", {scalar, x, pixels, weight}, {}, {y}, {-100}});
  run(device, {"aten::cumsum", {x}, {}, {y}, {2}});
}

void products(Device& device, DType type) {
  Bench b(device);
  const KernelTensor x = b.tensor(type, {24, 32}), w = b.tensor(type, {40, 32}), y = b.tensor(type, {24, 40});
  const Gemm gemm{.m = 24, .n = 40, .k = 32, .bias_epilogue = true, .dtype = type};
  run(device, {"aten::mm", {x, transposed(w)}, {}, {y}, {}, gemm});
  run(device, {"aten::mm", {y, w}, {}, {x}, {}, gemm});
  run(device, {"aten::mm", {transposed(y), x}, {}, {w}, {}, gemm});
  run(device,
      {"aten::addmm", {x, transposed(w), b.tensor(type, {40})}, {}, {y}, {}, gemm, {{b.memory(1 << 20), 1 << 20}}});
  const KernelTensor p = b.tensor(type, {6, 24, 32}), q = b.tensor(type, {6, 40, 32}), r = b.tensor(type, {6, 24, 40});
  run(device, {"aten::bmm", {p, transposed(q)}, {}, {r}, {}, gemm});
}

void lookups(Device& device, DType type) {
  Bench b(device);
  const KernelTensor table = b.tensor(type, {100, 24}), indices = b.tensor(DType::int64, {4, 7});
  const KernelTensor rows = b.tensor(type, {4, 7, 24});
  run(device, {"aten::embedding", {table, indices}, {}, {rows}, {}});
  run(device, {"aten::embedding_dense_backward", {rows, indices}, {}, {table}, {}});
  const KernelTensor index = b.tensor(DType::int64, {4, 7, 2});
  run(device, {"aten::gather", {rows, index}, {}, {b.tensor(type, {4, 7, 2})}, {2}});
  const KernelTensor each = b.tensor(DType::int64, {4});
  run(device, {"aten::index", {rows, each, each}, {}, {b.tensor(type, {4, 24})}, {}});
  const KernelTensor part = b.tensor(type, {4, 24});
  run(device, {"aten::index", {table, each}, {}, {part}, {}});
  run(device, {"aten::_index_put_impl_", {table, part, each}, {}, {}, {}});
  const KernelTensor columns = transposed(b.tensor(type, {24, 4}));
  const std::vector<KernelScratch> copied{{b.memory(1 << 10), 1 << 10}};
  run(device, {"aten::_index_put_impl_", {table, columns, each}, {}, {}, {}, Elementwise{}, copied});
  run(device, {"aten::index_select", {rows, each}, {}, {b.tensor(type, {4, 4, 24})}, {1}});
  run(device, {"aten::index_add_", {rows, b.tensor(type, {4, 4, 24}), each}, {}, {}, {1}});
  run(device, {"aten::scatter_", {rows, b.tensor(type, {4, 7, 2}), index}, {}, {}, {2}});
  run(device, {"aten::scatter_add_", {rows, b.tensor(type, {4, 7, 2}), index}, {}, {}, {2}});
}

void experts(Device& device, DType type) {
  Bench b(device);
  const KernelTensor x = b.tensor(type, {70, 40}), weight = b.tensor(type, {8, 48, 40}), y = b.tensor(type, {70, 48});
  const KernelTensor ends = b.tensor(DType::int32, {8});
  run(device, {"aten::_grouped_mm", {x, weight, ends}, {}, {y}, {0}});
  run(device, {"aten::_grouped_mm", {y, weight, ends}, {}, {x}, {1}});
  run(device, {"aten::_grouped_mm", {y, x, ends}, {}, {weight}, {2}});
  run(device, {"aten::topk", {y}, {}, {b.tensor(type, {70, 2}), b.tensor(DType::int64, {70, 2})}, {1}});
}

namespace {

// [B, H, L, D] in memory as [B, L, H, D].
KernelTensor heads(Bench& b, DType type, std::vector<std::int64_t> sizes) {
  KernelTensor t = b.tensor(type, {sizes[0], sizes[2], sizes[1], sizes[3]});
  std::swap(t.sizes[1], t.sizes[2]);
  std::swap(t.strides[1], t.strides[2]);
  return t;
}

}  // namespace

void attention(Device& device, DType type) {
  const DType sums = accumulate_type(type);
  for (const std::int64_t size : {24, 64, 80, 128, 160, 256}) {
    if (size > 128 && type == DType::fp64) continue;
    for (const std::int64_t key_heads : {6, 2}) {
      Bench b(device);
      const auto query = [&] { return heads(b, type, {2, 6, 50, size}); };
      const auto key = [&] { return heads(b, type, {2, key_heads, 70, size}); };
      const KernelTensor q = query(), k = key(), v = key(), out = query(), grad = query();
      const KernelTensor seed = b.tensor(DType::int64, {1, 1, 1, 2}), rows = b.tensor(sums, {2, 6, 64, 1});
      KernelTensor mask = b.tensor(type, {2, 1, 1, 70});
      const std::vector<double> plain{0.125, 0, 0}, causal{0.125, 1, 0.1};
      run(device, {"aten::_scaled_dot_product_efficient_attention", {q, k, v, mask}, {}, {seed, out, rows}, plain});
      run(device, {"aten::_scaled_dot_product_flash_attention", {q, k, v}, {}, {out, rows, seed}, causal});
      const std::vector<KernelTensor> saved{q, k, v, mask, out, rows};
      run(device, {"aten::_scaled_dot_product_efficient_attention_backward",
                   {grad},
                   saved,
                   {query(), key(), key(), b.tensor(type, {2, 6, 50, 70})},
                   plain});
      mask = {};
      run(device, {"aten::_scaled_dot_product_flash_attention_backward",
                   {grad},
                   {q, k, v, mask, out, rows},
                   {query(), key(), key()},
                   causal});
      const KernelTensor each = b.tensor(sums, {2, 6, 50});
      const std::vector<double> alone{0.125, 1, 0};
      run(device, {"FusedAttention", {q, k, v}, {}, {out, each}, alone});
      run(device, {"FusedAttentionBackward", {q, k, v, out, each, grad}, {}, {query(), key(), key()}, alone});
    }
  }
}

void recurrent(Device& device, DType type) {
  using cudnn_rnn::Cell;
  for (const Cell cell : {Cell::relu, Cell::tanh, Cell::lstm, Cell::gru}) {
    Bench b(device);
    const bool remembers = cell == Cell::lstm, packs = type == DType::bf16;
    Recurrence work;
    work.steps = 7, work.batch = 4, work.dtype = type;
    work.stack = {.cell = cell,
                  .bidirectional = true,
                  .value_bytes = size_of(type),
                  .input = 24,
                  .hidden = 16,
                  .projection = 16,
                  .layers = 2};
    const KernelTensor x = b.tensor(type, {7, 4, 24}), y = b.tensor(type, {7, 4, 32});
    const auto state = [&] { return b.tensor(type, {4, 4, 16}); };
    const KernelTensor h = state(), c = state(), space = b.tensor(type, {1 << 16});
    const KernelTensor reserve = b.tensor(DType::boolean, {1 << 20});
    const std::vector<KernelScratch> scratch{{b.memory(64 << 20), 64 << 20}};
    std::vector<KernelTensor> reads{x}, writes{y, state()};
    for (int i = 0; i < (packs ? 16 : 1); ++i) {
      const std::int64_t rows = cudnn_rnn::gates(cell) * 16, columns = i % 4 == 1 ? 16 : i < 8 ? 24 : 32;
      reads.push_back(!packs ? space : i % 4 < 2 ? b.tensor(type, {rows, columns}) : b.tensor(type, {rows}));
    }
    reads.push_back(h);
    if (remembers) reads.push_back(c), writes.push_back(state());
    if (packs) writes.push_back(space);
    writes.push_back(reserve);
    run(device, {"aten::_cudnn_rnn", reads, {}, writes, {0}, work, scratch});
    work.backward = true;
    std::vector<KernelTensor> kept{y, h};
    if (remembers) kept.push_back(c);
    kept.push_back(packs ? space : reserve);
    kept.push_back(packs ? reserve : space);
    std::vector<KernelTensor> of_input{x, b.tensor(type, {7, 4, 32}), state()}, of_weight{x}, made{x, state()};
    if (remembers) of_input.push_back(state()), made.push_back(state());
    of_input.insert(of_input.end(), kept.begin(), kept.end());
    of_weight.insert(of_weight.end(), kept.begin(), kept.end());
    of_weight.push_back(b.tensor(type, {1 << 16}));
    run(device, {"aten::_cudnn_rnn_backward_input", of_input, {}, made, {0}, work, scratch});
    run(device, {"aten::_cudnn_rnn_backward_weight", of_weight, {}, {}, {0}, work, scratch});
  }
}

}  // namespace gpuplan::module_test
