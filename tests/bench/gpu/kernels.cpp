#include <benchmark/benchmark.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "tests/bench/gpu/gpu_benchmarks.h"
#include "tests/support/operator_arguments.h"
#include "validate/calibration/convolution_shape.h"
#include "validate/calibration/operands.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr int kRuns = 20;  // one after another between two events, whose resolution is half a microsecond

// An operation, with what it is worth. `owned` is what its kernel's spans point into.
struct Case {
  std::string name;
  std::vector<KernelTensor> reads{}, extra{}, writes{};
  std::vector<double> numbers{};
  Primitive what = Elementwise{};
  std::vector<KernelScratch> scratch{};
  double bytes = 0, flops = 0;
};

// Operands of one case; throws where the GPU has too little memory for it.
class Memory {
 public:
  /// Random values of a type everywhere.
  Memory(Device& device, DType type) : operands_(device, 4 * kGiB) { operands_.randomize(type); }
  KernelTensor tensor(DType type, std::initializer_list<std::int64_t> sizes, bool channels_last = false) {
    const auto t = operands_.tensor(type, sizes, channels_last);
    if (!t) throw Error("too little memory", ErrorKind::environment);
    return *t;
  }
  KernelScratch scratch(std::int64_t bytes) {
    const auto s = operands_.bytes(bytes);
    if (!s) throw Error("too little memory", ErrorKind::environment);
    return *s;
  }
  /// Indices spread over the rows of a table.
  KernelTensor indices(Device& device, std::int64_t count, std::int64_t rows) {
    std::vector<std::int64_t> values(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = i * 7919 % rows;
    const KernelTensor t = tensor(DType::int64, {count});
    device.copy_to_device(t.data, values.data(), 8 * count);
    return t;
  }

 private:
  Operands operands_;
};

using Make = std::function<Case(Memory&, Device&)>;

void run(benchmark::State& state, BenchmarkedGpu& gpu, DType type, const Make& make) try {
  Device& device = gpu.device;
  Memory memory(device, type);
  const Case c = make(memory, device);
  Kernel kernel;
  kernel.op = operator_named(c.name);
  const std::vector<AttributeValue> attributes = by_name(kernel.op, c.numbers, c.reads.size());
  kernel.layer = "benchmark";
  kernel.what = &c.what;
  kernel.reads = c.reads;
  kernel.extra = c.extra;
  kernel.writes = c.writes;
  kernel.attributes = attributes;
  kernel.scratch = c.scratch;
  const std::string refused = device.refusal(kernel);
  if (!refused.empty()) throw Error(refused);
  for (int i = 0; i < 3; ++i) device.run(kernel);
  device.synchronize();
  if (!gpu.computes) return state.SkipWithError(kTimesNeedAGpu);
  for (auto _ : state) {
    const int from = device.mark();
    for (int i = 0; i < kRuns; ++i) device.run(kernel);
    const int to = device.mark();
    device.synchronize();
    state.SetIterationTime(device.milliseconds(from, to) / 1000 / kRuns);
    device.forget_marks();
  }
  const auto rate = [&](double work) {
    return benchmark::Counter(work, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
  };
  if (c.bytes > 0) state.counters["bytes"] = rate(c.bytes);
  if (c.flops > 0) state.counters["flop"] = rate(c.flops);
} catch (const Error& e) {
  if (e.kind() != ErrorKind::environment) ++gpu.failures;  // else there is too little memory
  state.SkipWithError(e.message().c_str());
}

void add(BenchmarkedGpu& gpu, const std::string& name, DType type, Make make) {
  benchmark::RegisterBenchmark(
      (name + "/" + std::string(name_of(type))).c_str(),
      [&gpu, type, make = std::move(make)](benchmark::State& state) { run(state, gpu, type, make); })
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}

double bytes_of(DType type, std::int64_t elements) { return static_cast<double>(elements * size_of(type)); }

void elementwise(BenchmarkedGpu& gpu, DType type) {
  for (std::int64_t n = 1 << 12; n <= 1 << 28; n *= 16) {
    add(gpu, "add/" + std::to_string(n), type, [=](Memory& m, Device&) {
      return Case{.name = "aten::add",
                  .reads = {m.tensor(type, {n}), m.tensor(type, {n})},
                  .writes = {m.tensor(type, {n})},
                  .what = Elementwise{n},
                  .bytes = 3 * bytes_of(type, n)};
    });
  }
}

void rows(BenchmarkedGpu& gpu, DType type) {
  for (const auto& [count, columns] : {std::pair<std::int64_t, std::int64_t>{8192, 768}, {8192, 4096}, {2048, 50257}}) {
    const std::string size = std::to_string(count) + "x" + std::to_string(columns);
    const std::int64_t r = count, c = columns;
    add(gpu, "layer_norm/" + size, type, [=](Memory& m, Device&) {
      return Case{.name = "aten::native_layer_norm",
                  .reads = {m.tensor(type, {r, c})},
                  .extra = {m.tensor(type, {c}), m.tensor(type, {c})},
                  .writes = {m.tensor(type, {r, c}), m.tensor(DType::fp32, {r, 1}), m.tensor(DType::fp32, {r, 1})},
                  .numbers = {1e-5},
                  .what = LayerNorm{.rows = r, .columns = c, .dtype = type},
                  .bytes = 2 * bytes_of(type, r * c)};
    });
    for (const bool log : {false, true})
      add(gpu, (log ? "log_softmax/" : "softmax/") + size, type, [=](Memory& m, Device&) {
        return Case{.name = log ? "aten::_log_softmax" : "aten::_softmax",
                    .reads = {m.tensor(type, {r, c})},
                    .writes = {m.tensor(type, {r, c})},
                    .numbers = {1},
                    .what = Softmax{.elements = r * c, .dtype = type},
                    .bytes = 2 * bytes_of(type, r * c)};
      });
    // What F.cross_entropy does with the logarithms: log_softmax above is the rest of it.
    add(gpu, "nll_loss/" + size, type, [=](Memory& m, Device& d) {
      return Case{.name = "aten::nll_loss_forward",
                  .reads = {m.tensor(type, {r, c}), m.indices(d, r, c)},
                  .writes = {m.tensor(type, {}), m.tensor(type, {})},
                  .numbers = {-100},
                  .what = NllLoss{.elements = r},
                  .bytes = bytes_of(type, r) + bytes_of(DType::int64, r)};
    });
    add(gpu, "nll_loss_backward/" + size, type, [=](Memory& m, Device& d) {
      return Case{.name = "aten::nll_loss_backward",
                  .reads = {m.tensor(type, {}), m.tensor(type, {r, c}), m.indices(d, r, c), m.tensor(type, {})},
                  .writes = {m.tensor(type, {r, c})},
                  .numbers = {-100},
                  .what = NllLoss{.elements = r, .backward = true},
                  .bytes = bytes_of(type, r * c)};
    });
  }
}

void lookups(BenchmarkedGpu& gpu, DType type) {
  constexpr std::int64_t kVocabulary = 50257, kFeatures = 768;
  for (const std::int64_t n : {1024, 8192, 65536}) {
    add(gpu, "embedding/" + std::to_string(n), type, [=](Memory& m, Device& d) {
      return Case{.name = "aten::embedding",
                  .reads = {m.tensor(type, {kVocabulary, kFeatures}), m.indices(d, n, kVocabulary)},
                  .writes = {m.tensor(type, {n, kFeatures})},
                  .what = Lookup{.indices = n, .vocabulary = kVocabulary, .features = kFeatures, .dtype = type},
                  .bytes = 2 * bytes_of(type, n * kFeatures)};
    });
    add(gpu, "embedding_backward/" + std::to_string(n), type, [=](Memory& m, Device& d) {
      return Case{
          .name = "aten::embedding_dense_backward",
          .reads = {m.tensor(type, {n, kFeatures}), m.indices(d, n, kVocabulary)},
          .writes = {m.tensor(type, {kVocabulary, kFeatures})},
          .what =
              Lookup{.indices = n, .vocabulary = kVocabulary, .features = kFeatures, .backward = true, .dtype = type},
          .bytes = bytes_of(type, n * kFeatures) + bytes_of(type, kVocabulary * kFeatures)};
    });
  }
}

KernelTensor transposed(KernelTensor t) {
  std::swap(t.sizes[t.rank - 1], t.sizes[t.rank - 2]);
  std::swap(t.strides[t.rank - 1], t.strides[t.rank - 2]);
  return t;
}

void products(BenchmarkedGpu& gpu, DType type) {
  struct Size {
    std::int64_t m, n, k;
  };
  for (const Size s : {Size{256, 256, 256}, Size{1024, 1024, 1024}, Size{4096, 4096, 4096}, Size{8192, 8192, 8192},
                       Size{8192, 3072, 768}, Size{2048, 50257, 768}, Size{16, 4096, 4096}}) {
    const std::string size = std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k);
    add(gpu, "gemm/" + size, type, [=](Memory& m, Device&) {
      return Case{.name = "aten::mm",
                  .reads = {m.tensor(type, {s.m, s.k}), transposed(m.tensor(type, {s.n, s.k}))},
                  .writes = {m.tensor(type, {s.m, s.n})},
                  .what = Gemm{.m = s.m, .n = s.n, .k = s.k, .dtype = type},
                  .scratch = {m.scratch(32 << 20)},
                  .flops = 2.0 * static_cast<double>(s.m * s.n * s.k)};
    });
  }
}

// ResNet's blocks at batch 32, in all passes.
void convolutions(BenchmarkedGpu& gpu, DType type) {
  constexpr std::pair<ConvolutionPass, const char*> kPasses[] = {{ConvolutionPass::forward, "forward"},
                                                                 {ConvolutionPass::backward_data, "data"},
                                                                 {ConvolutionPass::backward_filter, "filter"}};
  for (const std::int64_t channels : {64, 128, 256, 512}) {
    for (const bool last : {false, true}) {
      for (const auto& [pass, word] : kPasses) {
        Convolution c{.pass = pass, .n = 32, .c = channels, .k = channels, .r = 3, .s = 3, .pad_h = 1, .pad_w = 1};
        c.h = c.w = c.p = c.q = 3584 / channels;
        c.channels_last = last;
        c.dtype = type;
        const std::string name = "convolution/" + std::to_string(channels) + (last ? "/nhwc/" : "/nchw/") + word;
        add(gpu, name, type, [=](Memory& m, Device&) {
          const KernelTensor image = m.tensor(type, {c.n, c.c, c.h, c.w}, last);
          const KernelTensor filter = m.tensor(type, {c.k, c.c, c.r, c.s}, last);
          const KernelTensor map = m.tensor(type, {c.n, c.k, c.p, c.q}, last);
          Case o{.name = c.pass == ConvolutionPass::forward ? "aten::convolution" : "aten::convolution_backward",
                 .reads = {map, filter},
                 .writes = {image},
                 .what = c,
                 .scratch = {m.scratch(256 << 20)},
                 .flops = 2.0 * static_cast<double>(macs(c))};
          if (c.pass == ConvolutionPass::forward) o.reads = {image, filter}, o.writes = {map};
          if (c.pass == ConvolutionPass::backward_filter) o.reads = {map, image}, o.writes = {filter};
          return o;
        });
      }
    }
  }
}

// Causal attention of 12 heads of 64 in a batch of 8. FLOPs of the whole square: a kernel that leaves out half of it is
// worth twice its rate.
void attention(BenchmarkedGpu& gpu, DType type) {
  constexpr std::int64_t kBatch = 8, kHeads = 12, kSize = 64;
  for (const std::int64_t length : {256, 1024, 4096}) {
    const bool flash = type != DType::fp32;
    add(gpu, "attention/" + std::to_string(length), type, [=](Memory& m, Device&) {
      const auto heads = [&] { return m.tensor(type, {kBatch, kHeads, length, kSize}); };
      const KernelTensor q = heads(), k = heads(), v = heads(), out = heads();
      const KernelTensor sums = m.tensor(DType::fp32, {kBatch, kHeads, length, 1});
      const KernelTensor seed = m.tensor(DType::int64, {1, 1, 1, 2});
      return Case{
          .name = flash ? "aten::_scaled_dot_product_flash_attention" : "aten::_scaled_dot_product_efficient_attention",
          .reads = {q, k, v},
          .writes = {out, sums, seed},
          .numbers = {0.125, 1, 0},
          .flops = 4.0 * static_cast<double>(kBatch * kHeads * length * length * kSize)};
    });
  }
}

}  // namespace

void register_kernels(BenchmarkedGpu& gpu) {
  for (const DType type : {DType::fp32, DType::fp16, DType::bf16}) {
    if (type == DType::bf16 && gpu.device.description().compute_major < 8) continue;  // nothing multiplies it there
    elementwise(gpu, type);
    rows(gpu, type);
    lookups(gpu, type);
    products(gpu, type);
    convolutions(gpu, type);
    attention(gpu, type);
  }
}

}  // namespace gpuplan
