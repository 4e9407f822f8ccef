#include "validate/calibration/calibration.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <tuple>
#include <vector>

#include "estimator/device/measurement_words.h"
#include "validate/calibration/bench.h"
#include "validate/calibration/convolution_shape.h"
#include "validate/calibration/sizes.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
// What PyTorch gives cuBLASLt on Hopper (getCUDABlasLtWorkspaceSize); elsewhere it gives less.
constexpr std::int64_t kProductWorkspace = 32 * kMiB;
constexpr std::int64_t kConvolutionWorkspace = 256 * kMiB;

// An operation whose kernel's spans point into it.
struct Operation {
  std::vector<KernelTensor> reads, writes;
  std::vector<AttributeValue> attributes;
  std::vector<KernelScratch> scratch;
  Primitive what;
  Kernel kernel;
};

std::function<void()> runner(Device& device, std::shared_ptr<Operation> o, Operator op, bool tf32) {
  o->kernel.op = op;
  o->kernel.layer = "calibration";
  o->kernel.what = &o->what;
  o->kernel.reads = o->reads;
  o->kernel.writes = o->writes;
  o->kernel.attributes = o->attributes;
  o->kernel.scratch = o->scratch;
  o->kernel.tf32 = tf32;
  return [&device, o] { device.run(o->kernel); };
}

std::function<void()> copy_within(Bench& bench, std::int64_t bytes) {
  bench.inputs().clear();
  bench.outputs().clear();
  const auto from = bench.inputs().tensor(DType::fp32, {bytes / 4}),
             to = bench.outputs().tensor(DType::fp32, {bytes / 4});
  if (!from || !to) return {};
  auto o = std::make_shared<Operation>();
  o->reads = {*from};
  o->writes = {*to};
  o->what = Copy{bytes / 4};
  return runner(bench.device(), std::move(o), Operator::clone, false);
}

std::function<void()> small_kernel(Bench& bench) {
  bench.outputs().clear();
  auto o = std::make_shared<Operation>();
  o->reads = {bench.outputs().tensor(DType::fp32, {1}).value()};
  o->attributes = {{Attribute::other, 1}};
  o->what = Elementwise{1};
  return runner(bench.device(), std::move(o), Operator::add_, false);
}

std::function<void()> product(Bench& bench, const TimedGemm& g) {
  bench.inputs().clear();
  bench.outputs().clear();
  const DType type = stored_type(g.type);
  const auto x = bench.inputs().tensor(type, {g.m, g.k});
  auto w = bench.inputs().tensor(type, {g.n, g.k});
  const auto y = bench.outputs().tensor(type, {g.m, g.n});
  const auto workspace = bench.outputs().bytes(kProductWorkspace);
  if (!x || !w || !y || !workspace) return {};
  std::swap(w->sizes[0], w->sizes[1]);
  std::swap(w->strides[0], w->strides[1]);
  auto o = std::make_shared<Operation>();
  o->reads = {*x, *w};
  o->writes = {*y};
  o->scratch = {*workspace};
  o->what = Gemm{.m = g.m, .n = g.n, .k = g.k, .dtype = type};
  return runner(bench.device(), std::move(o), Operator::mm, g.type == ProductType::tf32);
}

std::function<void()> convolution(Bench& bench, const TimedConvolution& t) {
  bench.inputs().clear();
  bench.outputs().clear();
  const Convolution c = shape_of(t);
  // What the pass reads is random, what it writes is elsewhere.
  const auto of = [&](ConvolutionPass written_by) -> Operands& {
    return t.pass == written_by ? bench.outputs() : bench.inputs();
  };
  const auto image = of(ConvolutionPass::backward_data).tensor(c.dtype, {c.n, c.c, c.h, c.w}, c.channels_last);
  const auto filter = of(ConvolutionPass::backward_filter).tensor(c.dtype, {c.k, c.c, c.r, c.s}, c.channels_last);
  const auto result = of(ConvolutionPass::forward).tensor(c.dtype, {c.n, c.k, c.p, c.q}, c.channels_last);
  const auto workspace = bench.outputs().bytes(std::min(kConvolutionWorkspace, bench.outputs().capacity() / 2));
  if (!image || !filter || !result || !workspace) return {};
  auto o = std::make_shared<Operation>();
  switch (t.pass) {
    case ConvolutionPass::forward: o->reads = {*image, *filter}, o->writes = {*result}; break;
    case ConvolutionPass::backward_data: o->reads = {*result, *filter}, o->writes = {*image}; break;
    case ConvolutionPass::backward_filter: o->reads = {*result, *image}, o->writes = {*filter}; break;
  }
  o->scratch = {*workspace};
  o->what = c;
  const bool forward = t.pass == ConvolutionPass::forward;
  return runner(bench.device(), std::move(o), forward ? Operator::convolution : Operator::convolution_backward,
                t.type == ProductType::tf32);
}

// Ordinary memory of the host, or page-locked where the device has such.
class HostMemory {
 public:
  HostMemory(Device& device, std::int64_t bytes, bool pinned) : device_(device) {
    if (pinned) {
      pinned_ = device.allocate_pinned(bytes);
    } else {
      ordinary_.resize(static_cast<std::size_t>(bytes), std::byte{1});  // written, so that its pages are there
    }
  }
  ~HostMemory() {
    if (pinned_ != nullptr) device_.release_pinned(pinned_);
  }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  void* data() { return pinned_ != nullptr ? pinned_ : ordinary_.empty() ? nullptr : ordinary_.data(); }

 private:
  Device& device_;
  void* pinned_ = nullptr;
  std::vector<std::byte> ordinary_;
};

std::vector<TimedBytes> time_link(Bench& bench, const std::vector<std::int64_t>& sizes, bool to_device, bool pinned) {
  bench.begin(std::string("copies ") + (to_device ? "to the device from " : "from the device to ") +
              (pinned ? "page-locked memory" : "ordinary memory"));
  HostMemory host(bench.device(), sizes.empty() ? 0 : sizes.back(), pinned);
  std::vector<TimedBytes> table;
  for (const std::int64_t bytes : sizes) {
    bench.outputs().clear();
    const auto there = bench.outputs().bytes(bytes);
    Device& device = bench.device();
    void* const here = host.data();
    std::function<void()> operation;
    if (there && here != nullptr && to_device) operation = [&] { device.copy_to_device(there->data, here, bytes); };
    if (there && here != nullptr && !to_device) operation = [&] { device.copy_to_host(here, there->data, bytes); };
    if (const auto taken = bench.time(static_cast<double>(bytes), operation)) table.push_back({bytes, *taken});
  }
  return table;
}

void time_gemm(Bench& bench, ProductType type, std::vector<TimedGemm> sizes, Measurements& m) {
  bench.begin("matrix products in " + std::string(kProductTypes[static_cast<std::size_t>(type)].second));
  for (TimedGemm& g : sizes) {
    const auto taken = bench.time(flops(g), product(bench, g));
    if (!taken) continue;
    g.nanoseconds = *taken;
    m.gemm.push_back(g);
  }
}

void time_convolution(Bench& bench, ProductType type, std::vector<TimedConvolution> sizes, Measurements& m) {
  const TimedConvolution* before = nullptr;
  for (TimedConvolution& c : sizes) {
    if (before == nullptr || before->layout != c.layout || before->pass != c.pass)
      bench.begin("convolutions in " + std::string(kProductTypes[static_cast<std::size_t>(type)].second));
    before = &c;
    const auto taken = bench.time(flops(c), convolution(bench, c));
    if (!taken) continue;
    c.nanoseconds = *taken;
    m.convolution.push_back(c);
  }
}

void sort_by_sizes(Measurements& m) {
  std::ranges::sort(m.gemm, {}, [](const TimedGemm& g) { return std::tuple(g.type, g.m, g.n, g.k); });
  std::ranges::sort(m.convolution, {}, [](const TimedConvolution& c) {
    return std::tuple(c.type, c.layout, c.pass, c.n, c.c, c.h, c.w, c.k, c.r, c.s, c.stride, c.padding);
  });
}

}  // namespace

Calibration calibrate(Device& device, const Gpu& gpu, const CalibrationOptions& options,
                      const CalibrationProgress& progress) {
  const std::vector<ProductType> types = product_types(gpu);
  const std::vector<std::int64_t> copies = copy_sizes(options.quick, 1024 * kMiB);
  const std::vector<std::int64_t> transfers = copy_sizes(options.quick, (options.quick ? 64 : 256) * kMiB);
  std::size_t total = 1 + copies.size() + 4 * transfers.size();
  for (const ProductType t : types)
    total += gemm_sizes(t, options.quick).size() + convolution_sizes(t, options.quick).size();

  Bench bench(device, options, progress, static_cast<int>(total));
  Calibration c;
  c.gpu = gpu;
  Measurements& m = c.gpu.measured.emplace();
  bench.inputs().randomize(DType::fp32);
  const TimedGemm busy{.m = 2048, .n = 2048, .k = 2048};  // 28 MiB and a workspace: there is room
  if (const auto operation = product(bench, busy)) bench.warm_up(operation);
  bench.begin("launches");
  m.launch_ns = bench.time(1, small_kernel(bench)).value_or(0);
  m.to_device_pageable = time_link(bench, transfers, true, false);
  m.to_device_pinned = time_link(bench, transfers, true, true);
  m.to_host_pageable = time_link(bench, transfers, false, false);
  m.to_host_pinned = time_link(bench, transfers, false, true);
  bench.begin("copies within the device");
  for (const std::int64_t bytes : copies)
    if (const auto taken = bench.time(static_cast<double>(bytes), copy_within(bench, bytes)))
      m.copy.push_back({bytes, *taken});
  for (const ProductType type : types) {
    if (type == ProductType::fp16 || type == ProductType::bf16) bench.inputs().randomize(stored_type(type));
    time_gemm(bench, type, gemm_sizes(type, options.quick), m);
    time_convolution(bench, type, convolution_sizes(type, options.quick), m);
  }
  sort_by_sizes(m);
  bench.count_into(c);
  bench.release_operands();
  const DeviceMemory memory = device.memory();
  c.gpu.context_bytes = memory.total_bytes - memory.free_bytes;
  return c;
}

}  // namespace gpuplan
