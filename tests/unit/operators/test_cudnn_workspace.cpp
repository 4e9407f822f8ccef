// cuDNN's convolution workspaces against PyTorch 2.15 with cuDNN 9.26 (tests/recorders/convolutions.py), of Hopper
// against what an H100 answered (cuDNN 9.19, convolution_device.py). convolutions.tsv is a random sample of what the
// table was made of; convolutions_unseen.tsv is one of convolutions that are neither in the table nor in what the rule
// was trained on: of 31 models (convnext_small, densenet201, efficientnet_v2_m, mobilenet_v3_small, resnext101_32x8d,
// swin_b, vgg19, xception41, nasnetalarge and others, at several image sizes), of Hopper of drawn shapes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "estimator/operators/cudnn_workspace.h"

namespace gpuplan {
namespace {

struct Row {
  std::string gpu;
  CudnnConvolution conv;
  std::int64_t bytes = 0;
};

Gpu gpu_named(const std::string& name) {
  Gpu gpu;
  gpu.capability_major = name == "h200" ? 9 : name == "t4" ? 7 : 8;
  gpu.capability_minor = name == "rtx4090" ? 9 : name == "t4" ? 5 : 0;
  gpu.sm_count = name == "h200" ? 132 : name == "rtx4090" ? 128 : name == "t4" ? 40 : 108;
  return gpu;
}

/// A recording without its header.
std::ifstream recording(const std::string& file) {
  std::ifstream in(std::filesystem::path(GPUPLAN_SOURCE_DIR) / "tests" / "shadow" / file);
  REQUIRE(in);
  std::string header;
  std::getline(in, header);
  return in;
}

std::vector<Row> workspaces(const std::string& file) {
  std::ifstream in = recording(file);
  std::string line;
  std::vector<Row> rows;
  while (std::getline(in, line)) {
    Row r;
    CudnnConvolution& v = r.conv;
    std::string pass, layout, dtype;
    std::istringstream fields(line);
    fields >> r.gpu >> pass >> layout >> dtype >> v.n >> v.c >> v.h >> v.w >> v.k >> v.r >> v.s >> v.p >> v.q >>
        v.stride_h >> v.stride_w >> v.pad_h >> v.pad_w >> v.dilation_h >> v.dilation_w >> v.groups >> r.bytes;
    REQUIRE(fields);
    v.pass = pass == "f"   ? CudnnConvolution::Pass::forward
             : pass == "d" ? CudnnConvolution::Pass::backward_data
                           : CudnnConvolution::Pass::backward_filter;
    v.dtype = *dtype_from_name(dtype);
    v.channels_last = layout == "nhwc";
    rows.push_back(std::move(r));
  }
  return rows;
}

/// ResNet-50's second convolution of a block, as PyTorch gives it on an H200.
CudnnConvolution three_by_three(std::int64_t batch, DType dtype = DType::fp32) {
  CudnnConvolution v;
  v.dtype = dtype;
  v.n = batch;
  v.c = v.k = 64;
  v.h = v.w = v.p = v.q = 56;
  v.r = v.s = 3;
  v.pad_h = v.pad_w = 1;
  return v;
}

/// A kernel of 3 over [n, c, l], as Whisper's first layer has it.
CudnnConvolution sequence(std::int64_t n, std::int64_t c, std::int64_t length, std::int64_t k) {
  CudnnConvolution v;
  v.dtype = DType::fp16;
  v.n = n;
  v.c = c;
  v.w = v.q = length;
  v.k = k;
  v.s = 3;
  v.pad_w = 1;
  return v;
}

}  // namespace

TEST_CASE("recorded convolutions are exact") {
  const std::vector<Row> rows = workspaces("convolutions.tsv");
  CHECK(rows.size() > 1500);
  for (const Row& r : rows) {
    CAPTURE(r.gpu);
    CAPTURE(static_cast<int>(r.conv.pass));
    CAPTURE(r.conv.c);
    CAPTURE(r.conv.k);
    CAPTURE(r.conv.n);
    CHECK(cudnn_workspace_bytes(r.conv, gpu_named(r.gpu)) == r.bytes);
  }
}

TEST_CASE("the modelled rule stays near recordings of models that it has not seen") {
  struct Expected {
    bool hopper;
    DType dtype;
    double within_1_percent, within_10_percent, bias;
  };
  const Expected expected[] = {{false, DType::fp32, 0.81, 0.86, 0.05}, {false, DType::fp16, 0.82, 0.88, 0.04},
                               {false, DType::bf16, 0.87, 0.91, 0.01}, {true, DType::fp32, 0.71, 0.79, 0.36},
                               {true, DType::fp16, 0.76, 0.84, 0.11},  {true, DType::bf16, 0.76, 0.85, 0.31}};
  const std::vector<Row> rows = workspaces("convolutions_unseen.tsv");
  CHECK(rows.size() > 2000);
  for (const Expected& e : expected) {
    // Errors as a share of the convolution's input and output.
    std::vector<double> errors;
    double bias = 0;
    for (const Row& r : rows) {
      const CudnnConvolution& v = r.conv;
      if (v.dtype != e.dtype || (r.gpu == "h200") != e.hopper) continue;
      const auto tensors = static_cast<double>(v.n * (v.c * v.h * v.w + v.k * v.p * v.q) * size_of(v.dtype));
      const double error = static_cast<double>(cudnn_workspace_bytes(v, gpu_named(r.gpu)) - r.bytes) / tensors;
      errors.push_back(std::abs(error));
      bias += error;
    }
    std::sort(errors.begin(), errors.end());
    const auto count = static_cast<double>(errors.size());
    const auto within = [&](double bound) {
      return static_cast<double>(std::upper_bound(errors.begin(), errors.end(), bound) - errors.begin()) / count;
    };
    MESSAGE((e.hopper ? "Hopper, " : "others, ")
            << name_of(e.dtype) << ": median " << errors[errors.size() / 2] << ", 95th percentile "
            << errors[errors.size() * 95 / 100] << ", within 1 %: " << within(0.01) << ", within 10 %: " << within(0.1)
            << ", bias: " << bias / count);
    CHECK(errors[errors.size() / 2] <= 0.001);
    CHECK(within(0.01) >= e.within_1_percent);
    CHECK(within(0.1) >= e.within_10_percent);
    CHECK(std::abs(bias / count) <= e.bias);
  }
}

TEST_CASE("hardly any convolution of models that were not seen takes more than the bound") {
  const std::vector<Row> rows = workspaces("convolutions_unseen.tsv");
  for (const bool hopper : {false, true}) {
    std::vector<double> excess;  // as a share of the convolution's input and output
    for (const Row& r : rows) {
      if ((r.gpu == "h200") != hopper) continue;
      const std::int64_t at_most = cudnn_workspace_at_most(r.conv, gpu_named(r.gpu));
      CHECK(at_most >= cudnn_workspace_bytes(r.conv, gpu_named(r.gpu)));
      const CudnnConvolution& v = r.conv;
      const auto tensors = static_cast<double>(v.n * (v.c * v.h * v.w + v.k * v.p * v.q) * size_of(v.dtype));
      excess.push_back(static_cast<double>(at_most - r.bytes) / tensors);
    }
    std::ranges::sort(excess);
    const auto below = std::ranges::lower_bound(excess, 0.0) - excess.begin();
    MESSAGE((hopper ? "Hopper" : "others") << ", above the bound: " << below << " of " << excess.size()
                                           << ", median excess: " << excess[excess.size() / 2]);
    CHECK(below <= (hopper ? 4 : 11));  // of 900, of 1,400
  }
}

TEST_CASE("what was recorded is bounded by itself, what lies between two records by both") {
  const Gpu h200 = gpu_named("h200");
  CHECK(cudnn_workspace(three_by_three(32), h200).recorded);
  CHECK(cudnn_workspace_at_most(three_by_three(32), h200) == cudnn_workspace_bytes(three_by_three(32), h200));
  CHECK_FALSE(cudnn_workspace(three_by_three(48), h200).recorded);
  CHECK(cudnn_workspace_at_most(three_by_three(48), h200) >= cudnn_workspace_bytes(three_by_three(48), h200));
  Gpu h100_pcie = h200;
  h100_pcie.sm_count = 114;
  CHECK_FALSE(cudnn_workspace(three_by_three(32), h100_pcie).recorded);
  for (const char* recorded : {"h200", "a100", "rtx4090", "t4"})
    CHECK(cudnn_workspace_at_most(three_by_three(32), h100_pcie) >=
          cudnn_workspace_bytes(three_by_three(32), gpu_named(recorded)));
}

TEST_CASE("a TF32 convolution in NCHW transposes its tensors") {
  // x and y of [32, 64, 56, 56] fp32 take 25690112 B each, the filter 147456.
  CudnnConvolution v = three_by_three(32);
  CHECK(cudnn_workspace_bytes(v, gpu_named("h200")) == 25690112 + 147456 + 16);
  v.pass = CudnnConvolution::Pass::backward_data;
  CHECK(cudnn_workspace_bytes(v, gpu_named("h200")) == 2 * 25690112 + 147456 + 16);
  v.channels_last = true;
  CHECK(cudnn_workspace_bytes(v, gpu_named("h200")) == 131);
}

TEST_CASE("a half convolution in NCHW transposes input, output and filter, in NHWC nothing") {
  // x and y of [32, 64, 56, 56] take 12845056 B each in 2 B, the filter 73728.
  for (const DType dtype : {DType::fp16, DType::bf16}) {
    CudnnConvolution v = three_by_three(32, dtype);
    CHECK(cudnn_workspace_bytes(v, gpu_named("h200")) == 2 * 12845056 + 73728 + 147);
    v.channels_last = true;
    CHECK(cudnn_workspace_bytes(v, gpu_named("h200")) == 131);
  }
}

TEST_CASE("a half patch embedding in NCHW pads its 3 channels to 8") {
  // ViT-B/16: x of [8, 8, 224, 224] takes 6422528 B, y of [8, 768, 14, 14] 2408448, the filter [768, 8, 16, 16]
  // 3145728.
  CudnnConvolution v;
  v.dtype = DType::fp16;
  v.n = 8;
  v.c = 3;
  v.h = v.w = 224;
  v.k = 768;
  v.r = v.s = v.stride_h = v.stride_w = 16;
  v.p = v.q = 14;
  CHECK(cudnn_workspace_bytes(v, gpu_named("h200")) == 6422528 + 2408448 + 3145728 + 16);
  CHECK(cudnn_workspace_bytes(v, gpu_named("a100")) == 6422528 + 2408448 + 3145728 + 16);
}

TEST_CASE("a Conv1d is a convolution of height 1") {
  // Whisper's first: x of [8, 80, 1, 3000] takes 3840000 B, y of [8, 512, 1, 3000] 24576000, the filter 245760.
  CHECK(cudnn_workspace_bytes(sequence(8, 80, 3000, 512), gpu_named("h200")) == 3840000 + 24576000 + 245760 + 147);
}

TEST_CASE("batches between the recorded ones take the smaller one's form") {
  CHECK(cudnn_workspace_bytes(three_by_three(48), gpu_named("h200")) == 48 * 64 * 56 * 56 * 4 + 147456 + 16);
}

TEST_CASE("fp64 convolutions work without a workspace") {
  CHECK(cudnn_workspace_bytes(three_by_three(32, DType::fp64), gpu_named("h200")) == 0);
}

TEST_CASE("a depthwise convolution runs where PyTorch runs it") {
  std::ifstream in = recording("convolution_backends.tsv");  // tests/recorders/depthwise_backends.py
  std::string line;
  int rows = 0;
  while (std::getline(in, line)) {
    CudnnConvolution v;
    std::string dtype, layout, backend;
    std::istringstream fields(line);
    fields >> dtype >> layout >> v.n >> v.c >> v.h >> v.w >> v.k >> v.r >> v.s >> v.stride_h >> v.dilation_h >> backend;
    REQUIRE(fields);
    v.dtype = *dtype_from_name(dtype);
    v.channels_last = layout == "nhwc";
    v.groups = v.c;
    v.stride_w = v.stride_h;
    v.dilation_w = v.dilation_h;
    CAPTURE(line);
    CHECK(runs_native_depthwise(v, gpu_named("h200")) == (backend == "native"));
    ++rows;
  }
  CHECK(rows >= 300);
}

TEST_CASE("PyTorch's own depthwise kernel takes no workspace") {
  CudnnConvolution v = three_by_three(8, DType::bf16);
  v.groups = 64;
  REQUIRE(runs_native_depthwise(v, gpu_named("a100")));
  CHECK(cudnn_workspace_bytes(v, gpu_named("a100")) == 0);
  v.groups = 32;
  CHECK_FALSE(runs_native_depthwise(v, gpu_named("a100")));
}

TEST_CASE("an input of 2^31 elements is too large for PyTorch's own depthwise kernel") {
  CudnnConvolution v = three_by_three(1023, DType::fp64);
  v.c = v.k = v.groups = 512;
  v.h = v.w = v.p = v.q = 64;
  CHECK(runs_native_depthwise(v, gpu_named("h200")));
  v.n = 1024;
  CHECK_FALSE(runs_native_depthwise(v, gpu_named("h200")));
}

}  // namespace gpuplan
