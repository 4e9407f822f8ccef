// Operations that belong together: what one leaves the next one needs.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/drawn_operands.h"
#include "tests/cuda/kernel_cases.h"
#include "tests/cuda/module_bench.h"
#include "tests/host_device/elements.h"

namespace gpuplan::comparison {

using module_test::Bench;
using module_test::run;

namespace {

void attempt(const std::string& what, const auto& f) {
  module_test::ran();
  try {
    f();
  } catch (const Error& e) {
    module_test::failed(what + ": " + e.message());
  }
}

int states_of(const OptimizerConfig& c) {
  switch (c.kind) {
    case OptimizerKind::none: return 0;
    case OptimizerKind::sgd: return c.momentum ? 1 : 0;
    case OptimizerKind::adagrad: return 1;
    case OptimizerKind::rmsprop: return 1 + (c.momentum ? 1 : 0) + (c.centered ? 1 : 0);
    case OptimizerKind::adam:
    case OptimizerKind::adamw: return c.amsgrad ? 3 : 2;
    default: return 2;
  }
}

std::vector<OptimizerConfig> optimizers() {
  std::vector<OptimizerConfig> all;
  for (const OptimizerKind kind :
       {OptimizerKind::sgd, OptimizerKind::adam, OptimizerKind::adamw, OptimizerKind::rmsprop, OptimizerKind::adagrad,
        OptimizerKind::adadelta, OptimizerKind::nadam, OptimizerKind::radam, OptimizerKind::adamax}) {
    OptimizerConfig c;
    c.kind = kind;
    all.push_back(c);
    c.momentum = kind == OptimizerKind::sgd || kind == OptimizerKind::rmsprop;
    c.amsgrad = kind == OptimizerKind::adam || kind == OptimizerKind::adamw;
    if (c.momentum || c.amsgrad) all.push_back(c);
    c.nesterov = kind == OptimizerKind::sgd;
    c.centered = kind == OptimizerKind::rmsprop;
    if (c.nesterov || c.centered) all.push_back(c);
  }
  return all;
}

}  // namespace

// Steps 1 to 6: radam changes its formula at the sixth. More tensors than a launch takes, of one element and of several
// chunks; gradients whose norm is far above 1 are clipped.
void compare_optimizers(ComparingDevice& device, DType type) {
  for (const OptimizerConfig& config : optimizers())
    attempt("optimizer " + std::to_string(static_cast<int>(config.kind)), [&] {
      Bench b(device);
      std::vector<std::vector<KernelTensor>> states(50);
      std::vector<ParameterUpdate> updates;
      std::vector<KernelTensor> gradients;
      std::uint64_t drawn = 0;
      for (auto& own : states) {
        const std::size_t n = updates.size();
        const std::vector<std::int64_t> sizes{n == 1 ? 9001 : n == 2 ? 1 : 7, n == 3 ? 0 : 3};
        const KernelTensor parameter = b.tensor(type, sizes), gradient = b.tensor(type, sizes);
        draw(device, parameter, ++drawn);
        for (int i = 0; i < states_of(config); ++i) own.push_back(b.tensor(type, sizes));
        updates.push_back({parameter, gradient, own});
        gradients.push_back(gradient);
      }
      for (std::int64_t step = 1; step <= 6; ++step) {
        for (const KernelTensor& g : gradients) draw(device, g, ++drawn);
        if (step <= 2) device.clip_gradients(gradients);
        device.update(config, step, updates);
      }
    });
}

void compare_scaler(ComparingDevice& device) {
  attempt("a GradScaler", [&] {
    Bench b(device);
    const KernelTensor scale = b.tensor(DType::fp32, {}), found = b.tensor(DType::fp32, {});
    const KernelTensor tracker = b.tensor(DType::int32, {});
    const ScalerValues values{scale.data, tracker.data, found.data};
    std::vector<KernelTensor> gradients;
    for (const DType type : {DType::fp32, DType::fp16, DType::bf16}) gradients.push_back(b.tensor(type, {3001}));
    for (int step = 0; step < 4; ++step) {
      const float scales = 65536, none = 0;
      const std::int32_t steps = step == 2 ? 1999 : 5;  // grows after 2,000
      device.copy_to_device(scale.data, &scales, sizeof scales);
      device.copy_to_device(found.data, &none, sizeof none);
      device.copy_to_device(tracker.data, &steps, sizeof steps);
      for (const KernelTensor& g : gradients) draw(device, g, static_cast<std::uint64_t>(step) + 1);
      const float infinity = INFINITY;
      if (step == 1) device.copy_to_device(static_cast<float*>(gradients[0].data) + 2999, &infinity, sizeof infinity);
      device.unscale_gradients(gradients, values);
      device.update_scale(values);
    }
  });
}

// The mask is that of the seed, the same in backward; the share that is kept is within five standard deviations of
// 1 - p, which one in 1.7 million draws is not.
void compare_dropout(ComparingDevice& device, DType type) {
  for (const double p : {0.1, 0.5, 0.9})
    attempt("dropout", [&] {
      Bench b(device);
      constexpr std::int64_t kCount = 50'001;
      const KernelTensor x = b.tensor(type, {kCount}), y = b.tensor(type, {kCount}), dx = b.tensor(type, {kCount});
      const KernelTensor mask = b.tensor(DType::boolean, {kCount});
      draw(device, x, 1, 1, 2);
      run(device, {"aten::native_dropout", {x}, {}, {mask, y}, {p}});
      run(device, {"aten::native_dropout_backward", {x, mask}, {}, {dx}, {p}});
      std::vector<unsigned char> kept(kCount);
      device.copy_to_host(kept.data(), mask.data, kCount);
      std::int64_t ones = 0;
      for (const unsigned char k : kept) ones += k;
      const double expected = (1 - p) * static_cast<double>(kCount);
      if (std::abs(static_cast<double>(ones) - expected) > 5 * std::sqrt(expected * p))
        throw Error(std::to_string(ones) + " of 50,001 kept at " + std::to_string(p));
    });
}

namespace {

struct AttentionCase {
  std::int64_t queries, keys, size, key_heads;
  bool causal, masked;
  double p;
};

// [B, H, L, D] in memory as [B, L, H, D].
KernelTensor heads(Bench& b, DType type, std::int64_t count, std::int64_t length, std::int64_t size) {
  KernelTensor t = b.tensor(type, {2, length, count, size});
  std::swap(t.sizes[1], t.sizes[2]);
  std::swap(t.strides[1], t.strides[2]);
  return t;
}

void attend(ComparingDevice& device, DType type, const AttentionCase& c) {
  Bench b(device);
  constexpr std::int64_t kHeads = 4;
  const auto query = [&] { return heads(b, type, kHeads, c.queries, c.size); };
  const auto key = [&] { return heads(b, type, c.key_heads, c.keys, c.size); };
  const KernelTensor q = query(), k = key(), v = key(), out = query(), grad = query();
  std::uint64_t drawn = 0;
  for (const KernelTensor& t : {q, k, v, grad}) draw(device, t, ++drawn);
  KernelTensor mask;
  if (c.masked) {
    mask = b.tensor(type, {2, 1, 1, c.keys});
    draw(device, mask, ++drawn);
  }
  const KernelTensor rows = b.tensor(accumulate_type(type), {2, kHeads, c.queries, 1});
  const KernelTensor seed = b.tensor(DType::int64, {1, 1, 1, 2});
  const std::vector<double> numbers{1 / std::sqrt(static_cast<double>(c.size)), c.causal ? 1.0 : 0.0, c.p};
  std::vector<KernelTensor> reads{q, k, v};
  if (c.masked) reads.push_back(mask);
  run(device, {"aten::_scaled_dot_product_efficient_attention", reads, {}, {out, rows, seed}, numbers});
  std::vector<KernelTensor> gradients{query(), key(), key()};
  if (c.masked) gradients.push_back(b.tensor(type, {2, kHeads, c.queries, c.keys}));
  run(device, {"aten::_scaled_dot_product_efficient_attention_backward",
               {grad},
               {q, k, v, mask, out, rows},
               gradients,
               numbers});
}

}  // namespace

// Lengths below, at and beside multiples of the tiles of 16 and 32; heads of each padded size; groups of heads.
void compare_attention(ComparingDevice& device, DType type) {
  constexpr AttentionCase kCases[] = {
      {1, 1, 8, 4, false, false, 0},     {5, 5, 8, 4, true, false, 0},       {33, 33, 24, 4, true, false, 0.1},
      {50, 70, 64, 2, false, true, 0},   {31, 17, 40, 1, false, false, 0.3}, {32, 64, 128, 4, true, false, 0},
      {17, 47, 80, 4, false, true, 0.1}, {65, 65, 16, 2, true, false, 0},    {12, 9, 13, 4, false, true, 0}};
  for (AttentionCase c : kCases) {
    // What is kept is multiplied by 1 / (1 - p) in fp32 whatever the type: in fp64, by one that is exact.
    if (type == DType::fp64 && c.p > 0) c.p = 0.5;
    attend(device, type, c);
  }
  if (type != DType::fp64) attend(device, type, {20, 35, 160, 2, true, false, 0});
}

}  // namespace gpuplan::comparison
