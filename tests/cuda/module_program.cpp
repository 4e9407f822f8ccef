// Opens the CUDA module that it is given and runs every operation once on small tensors, in the types and layouts that
// plans have. Nothing is computed under `gpuplan shadow`; what is checked is that the module accepts the operation,
// that no CUDA call fails and, from the recorded launches, that every configuration is within the GPU's limits.
#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "estimator/error.h"
#include "validate/cuda/module.h"
#include "validate/executor/device.h"

using namespace gpuplan;

namespace {

int failures = 0, runs = 0;

struct Block {
  std::uint64_t address;
  std::int64_t bytes;
};

class Bench {
 public:
  explicit Bench(Device& device) : device_(device) {}
  ~Bench() {
    for (const Block& b : blocks_) device_.release(b.address, b.bytes);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  KernelTensor tensor(DType dtype, std::vector<std::int64_t> sizes, bool channels_last = false) {
    KernelTensor t;
    t.dtype = dtype;
    t.rank = static_cast<std::int32_t>(sizes.size());
    std::int64_t step = 1;
    std::vector<int> order;
    for (int i = t.rank - 1; i >= 0; --i) order.push_back(i);
    if (channels_last) order = {1, 3, 2, 0};
    for (const int i : order) {
      t.sizes[i] = sizes[static_cast<std::size_t>(i)];
      t.strides[i] = step;
      step *= t.sizes[i];
    }
    t.data = memory(step * size_of(dtype));
    return t;
  }
  void* memory(std::int64_t bytes) {
    const std::uint64_t address = device_.allocate(bytes);
    if (address == 0) throw Error("no memory");
    blocks_.push_back({address, bytes});
    void* data = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
    device_.fill_bytes(data, bytes, 0);
    return data;
  }

 private:
  Device& device_;
  std::vector<Block> blocks_;
};

struct Case {
  std::string name;
  std::vector<KernelTensor> reads, beside, writes;
  std::vector<double> numbers;
  Primitive what = Elementwise{};
  std::vector<KernelScratch> scratch;
};

void run(Device& device, const Case& c) {
  Kernel k;
  k.name = c.name;
  k.layer = "layer";
  k.what = &c.what;
  k.reads = c.reads;
  k.beside = c.beside;
  k.writes = c.writes;
  k.numbers = c.numbers;
  k.scratch = c.scratch;
  k.seed = 7;
  ++runs;
  try {
    const std::string why = device.refusal(k);
    if (!why.empty()) throw Error("refused: " + why);
    device.run(k);
    device.synchronize();
  } catch (const Error& e) {
    std::printf("FAIL %s: %s\n", c.name.c_str(), e.message().c_str());
    ++failures;
  }
}

KernelTensor transposed(KernelTensor t) {
  std::swap(t.sizes[t.rank - 1], t.sizes[t.rank - 2]);
  std::swap(t.strides[t.rank - 1], t.strides[t.rank - 2]);
  return t;
}

void pointwise(Device& device, DType type) {
  Bench b(device);
  const KernelTensor x = b.tensor(type, {4, 8, 6, 10}), y = b.tensor(type, {4, 8, 6, 10}),
                     z = b.tensor(type, {4, 8, 6, 10});
  const KernelTensor row = b.tensor(type, {10}), last = b.tensor(type, {4, 8, 6, 10}, true);
  const KernelTensor mask = b.tensor(DType::boolean, {4, 8, 6, 10}), row_mask = b.tensor(DType::boolean, {6, 10});
  const KernelTensor channels = b.tensor(type, {1, 8, 1, 1});
  for (const char* name : {"aten::add", "aten::sub", "aten::mul", "aten::div"}) {
    run(device, {name, {x, y}, {}, {z}, {}});
    run(device, {name, {x, row}, {}, {z}, {}});
    run(device, {name, {x}, {}, {z}, {0.5}});
    run(device, {name, {x, last}, {}, {z}, {}});
    run(device, {std::string(name) + "_", {x, y}, {}, {}, {}});
  }
  run(device, {"aten::add_", {x, channels}, {}, {}, {}});
  for (const char* name : {"aten::eq", "aten::ne", "aten::lt", "aten::le", "aten::ge", "aten::gt"}) {
    run(device, {name, {x, y}, {}, {mask}, {}});
    run(device, {name, {x}, {}, {mask}, {3}});
  }
  for (const char* name :
       {"neg", "exp", "sin", "cos", "tanh", "relu", "silu", "sigmoid", "rsqrt", "hardsigmoid", "hardswish"})
    run(device, {std::string("aten::") + name, {x}, {}, {z}, {}});
  run(device, {"aten::relu_", {x}, {}, {}, {}});
  run(device, {"aten::pow", {x}, {}, {z}, {2}});
  run(device, {"aten::pow", {x}, {}, {z}, {3}});
  run(device, {"aten::hardtanh_", {x}, {}, {}, {0, 6}});
  run(device, {"aten::leaky_relu", {x}, {}, {z}, {0.01}});
  run(device, {"aten::elu", {x}, {}, {z}, {1}});
  for (const double form : {0.0, 1.0}) {
    run(device, {"aten::gelu", {x}, {}, {z}, {form}});
    run(device, {"aten::gelu_backward", {y, x}, {}, {z}, {form}});
  }
  for (const char* name : {"threshold_backward", "silu_backward", "tanh_backward", "sigmoid_backward"})
    run(device, {std::string("aten::") + name, {x, y}, {}, {z}, {}});
  run(device, {"aten::leaky_relu_backward", {x, y}, {}, {z}, {0.01}});
  run(device, {"aten::hardsigmoid_backward", {y, x}, {}, {z}, {}});
  run(device, {"aten::hardswish_backward", {y, x}, {}, {z}, {}});
  run(device, {"aten::hardtanh_backward", {y, x}, {}, {z}, {0, 6}});
  run(device, {"aten::masked_fill", {x, mask}, {}, {z}, {-1}});
  run(device, {"aten::masked_fill", {x, row_mask}, {}, {z}, {-1}});
  run(device, {"aten::where", {mask, x, y}, {}, {z}, {}});
  run(device, {"aten::where", {mask, x}, {}, {b.tensor(type, {}), z}, {1, 2}});
  run(device, {"aten::where", {mask}, {}, {z}, {0, -std::numeric_limits<double>::infinity()}});
  run(device, {"aten::native_dropout", {x}, {}, {mask, z}, {0.1}});
  run(device, {"aten::native_dropout_backward", {x, mask}, {}, {z}, {0.1}});
}

void copies(Device& device, DType type) {
  Bench b(device);
  const KernelTensor x = b.tensor(type, {4, 8, 6, 10}), z = b.tensor(type, {4, 8, 6, 10});
  const KernelTensor last = b.tensor(type, {4, 8, 6, 10}, true);
  run(device, {"aten::clone", {x}, {}, {z}, {}});
  run(device, {"aten::contiguous", {last}, {}, {z}, {}});
  run(device, {"aten::clone", {x}, {}, {last}, {}});
  run(device, {"aten::clone", {transposed(b.tensor(type, {3, 5}))}, {}, {b.tensor(type, {5, 3})}, {}});
  for (const DType to : {DType::fp32, DType::fp16, DType::bf16, DType::fp64, DType::int64, DType::boolean})
    run(device, {"aten::to", {x}, {}, {b.tensor(to, {4, 8, 6, 10})}, {}});
  run(device, {"aten::copy_", {x, z}, {}, {}, {}});
  run(device, {"aten::copy_", {x, b.tensor(type, {4, 4, 6, 10})}, {}, {}, {1, 0, 2}});
  run(device, {"aten::copy_", {x, b.tensor(type, {4, 6, 10})}, {}, {}, {1, 3}});
  run(device, {"aten::cat", {x, z}, {}, {b.tensor(type, {4, 16, 6, 10})}, {1}});
  run(device, {"aten::stack", {x, z}, {}, {b.tensor(type, {2, 4, 8, 6, 10})}, {0}});
  run(device, {"aten::constant_pad_nd", {x}, {}, {b.tensor(type, {4, 8, 7, 12})}, {0, 0, 0, 1, 0, 0, 1, 1, 0}});
  run(device, {"aten::zeros", {}, {}, {x}, {}});
  run(device, {"aten::slice_backward", {}, {}, {x}, {}});
  run(device, {"aten::ones_like", {x}, {}, {z}, {1}});
  run(device, {"aten::flip", {x}, {}, {z}, {1}});
}

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
    const KernelTensor weight = channels(type), bias = channels(type), mean = channels(sums), invstd = channels(sums);
    const KernelTensor running_mean = channels(type), running_variance = channels(type);
    const std::vector<KernelTensor> beside{weight, bias, running_mean, running_variance};
    BatchNorm work{.elements = 8192, .channels = 32, .rows = 256, .accumulate = sums};
    run(device, {"aten::batch_norm", {x}, beside, {y, mean, invstd}, {0.1, 1e-5}, work});
    const std::vector<KernelTensor> saved{weight, mean, invstd, running_mean, running_variance};
    work.backward = true;
    run(device,
        {"aten::cudnn_batch_norm_backward", {x, y, weight}, saved, {dx, channels(type), channels(type)}, {1e-5}, work});
    run(device,
        {"aten::native_batch_norm_backward", {y, x}, saved, {dx, channels(type), channels(type)}, {1e-5}, work});
    work.training = false;
    work.backward = false;
    run(device, {"aten::batch_norm", {x}, beside, {y}, {0.1, 1e-5}, work});
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
}

// [B, H, L, D] in memory as [B, L, H, D].
KernelTensor heads(Bench& b, DType type, std::vector<std::int64_t> sizes) {
  KernelTensor t = b.tensor(type, {sizes[0], sizes[2], sizes[1], sizes[3]});
  std::swap(t.sizes[1], t.sizes[2]);
  std::swap(t.strides[1], t.strides[2]);
  return t;
}

void attention(Device& device, DType type) {
  const DType sums = accumulate_type(type);
  for (const std::int64_t size : {24, 64, 80, 128}) {
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
    }
  }
}

void integers(Device& device) {
  Bench b(device);
  const KernelTensor x = b.tensor(DType::int64, {4, 9}), y = b.tensor(DType::int64, {4, 9});
  const KernelTensor mask = b.tensor(DType::boolean, {4, 9}), scalar = b.tensor(DType::boolean, {});
  run(device, {"aten::add", {x}, {}, {y}, {1}});
  run(device, {"aten::ne", {x}, {}, {mask}, {1}});
  run(device, {"aten::__and__", {mask, mask}, {}, {b.tensor(DType::boolean, {4, 9})}, {}});
  run(device, {"aten::cumsum", {x}, {}, {y}, {1}});
  run(device, {"aten::arange", {}, {}, {b.tensor(DType::int64, {9})}, {0}});
  run(device, {"aten::new_ones", {}, {}, {mask}, {}});
  run(device, {"aten::all", {mask}, {}, {scalar}, {}});
  run(device, {"aten::any", {mask}, {}, {scalar}, {}});
}

void optimizers(Device& device, DType type) {
  constexpr OptimizerKind kKinds[] = {OptimizerKind::sgd, OptimizerKind::adam, OptimizerKind::adamw,
                                      OptimizerKind::rmsprop, OptimizerKind::adagrad};
  for (const OptimizerKind kind : kKinds) {
    Bench b(device);
    OptimizerConfig config;
    config.kind = kind;
    config.momentum = kind == OptimizerKind::sgd;
    const bool two = kind == OptimizerKind::adam || kind == OptimizerKind::adamw;
    std::vector<std::vector<KernelTensor>> states(50);
    std::vector<ParameterUpdate> updates;
    std::vector<KernelTensor> gradients;
    for (auto& own : states) {
      const KernelTensor parameter = b.tensor(type, {37, 5}), gradient = b.tensor(type, {37, 5});
      for (int i = 0; i < (two ? 2 : 1); ++i) own.push_back(b.tensor(type, {37, 5}));
      updates.push_back({parameter, gradient, own});
      gradients.push_back(gradient);
    }
    ++runs;
    try {
      device.clip_gradients(gradients);
      device.update(config, 1, updates);
      device.synchronize();
    } catch (const Error& e) {
      std::printf("FAIL optimizer %d: %s\n", static_cast<int>(kind), e.message().c_str());
      ++failures;
    }
  }
}

void errors(Device& device) {
  Bench b(device);
  Kernel k;
  k.name = "aten::no_such_thing";
  const std::vector<KernelTensor> x{b.tensor(DType::fp32, {2, 3})};
  k.reads = x;
  ++runs;
  bool named = false;
  try {
    device.run(k);
  } catch (const Error& e) {
    named = e.message().find("aten::no_such_thing (fp32[2, 3]): ") == 0;
  }
  if (device.refusal(k).empty() || !named) {
    std::printf("FAIL an unknown operation is refused by name\n");
    ++failures;
  }
}

void expandable(Device& device) {
  ++runs;
  constexpr std::int64_t kPage = 2 << 20;
  try {
    const std::uint64_t range = device.reserve(64 * kPage);
    const bool there = device.map(range, 20 * kPage);
    device.fill_bytes(reinterpret_cast<void*>(range), 20 * kPage, 0xFF);  // NOLINT(performance-no-int-to-ptr)
    device.unmap(range + 4 * kPage, 3 * kPage);
    device.unmap(range, 4 * kPage);
    device.unmap(range + 7 * kPage, 13 * kPage);
    if (!there) throw Error("20 pages are not there");
  } catch (const Error& e) {
    std::printf("FAIL expandable segments: %s\n", e.message().c_str());
    ++failures;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  void* module = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) {
    std::printf("FAIL %s\n", dlerror());
    return 1;
  }
  const auto abi = reinterpret_cast<ModuleAbi>(dlsym(module, kModuleAbiSymbol));
  const auto open = reinterpret_cast<ModuleOpen>(dlsym(module, kModuleOpenSymbol));
  if (abi == nullptr || open == nullptr || abi() != kModuleAbi) {
    std::printf("FAIL the module's functions\n");
    return 1;
  }
  char why[256] = "";
  const std::unique_ptr<Device> device(open(0, why, sizeof why));
  if (device == nullptr) {
    std::printf("FAIL %s\n", why);
    return 1;
  }
  const DeviceDescription d = device->description();
  std::printf("%s, %d.%d, %d multiprocessors, %s\n", d.name.c_str(), d.compute_major, d.compute_minor, d.sm_count,
              d.versions.c_str());
  const int before = device->mark();
  for (const DType type : {DType::fp32, DType::fp16, DType::bf16, DType::fp64}) {
    pointwise(*device, type);
    copies(*device, type);
    reductions(*device, type);
    products(*device, type);
    for (const bool last : {false, true}) {
      if (type != DType::fp64 || !last) convolutions(*device, type, last);
      pooling(*device, type, last);
    }
    normalizations(*device, type);
    lookups(*device, type);
    attention(*device, type);
    optimizers(*device, type);
  }
  integers(*device);
  errors(*device);
  expandable(*device);
  const int after = device->mark();
  device->synchronize();
  (void)device->milliseconds(before, after);
  std::printf("%d of %d failed\n", failures, runs);
  return failures == 0 ? 0 : 1;
}
