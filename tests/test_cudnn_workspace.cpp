// cuDNN's convolution workspaces against PyTorch 2.15 with cuDNN 9.26 (tests/recorders/convolutions.py).
// convolutions.tsv is a random sample of what the table was made of; convolutions_unseen.tsv is one of models that the
// table has not seen (inception_v3, mnasnet1_0, mobilenet_v3_small, regnet_y_400mf, squeezenet1_0, deeplabv3_resnet50
// on 520 pixels).
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "estimator/memory/cudnn_workspace.h"

namespace gpuplan {
namespace {

std::int64_t workspace_bytes(const CudnnConvolution& convolution, const Gpu& gpu) {
  SimilarConvolutions similar;
  return cudnn_workspace_bytes(convolution, gpu, similar);
}

struct Row {
  std::string gpu;
  CudnnConvolution conv;
  std::int64_t bytes = 0;
};

Gpu gpu_named(const std::string& name) {
  Gpu gpu;
  gpu.capability_major = name == "h200" ? 9 : name == "t4" ? 7 : 8;
  gpu.capability_minor = name == "rtx4090" ? 9 : name == "t4" ? 5 : 0;
  return gpu;
}

std::vector<Row> recording(const std::string& file) {
  std::ifstream in(std::filesystem::path(__FILE__).parent_path() / "shadow" / file);
  REQUIRE(in);
  std::string line;
  std::getline(in, line);  // the header
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
CudnnConvolution three_by_three(std::int64_t batch) {
  CudnnConvolution v;
  v.n = batch;
  v.c = v.k = 64;
  v.h = v.w = v.p = v.q = 56;
  v.r = v.s = 3;
  v.pad_h = v.pad_w = 1;
  return v;
}

}  // namespace

TEST_CASE("recorded convolutions are exact") {
  const std::vector<Row> rows = recording("convolutions.tsv");
  CHECK(rows.size() > 1500);
  for (const Row& r : rows) {
    CAPTURE(r.gpu);
    CAPTURE(static_cast<int>(r.conv.pass));
    CAPTURE(r.conv.c);
    CAPTURE(r.conv.k);
    CAPTURE(r.conv.n);
    CHECK(workspace_bytes(r.conv, gpu_named(r.gpu)) == r.bytes);
  }
}

TEST_CASE("the modelled rule stays near recordings of models that the table has not seen") {
  const std::vector<Row> rows = recording("convolutions_unseen.tsv");
  CHECK(rows.size() > 1000);
  // Errors as a share of the convolution's input and output.
  std::vector<double> errors;
  double bias = 0;
  for (const Row& r : rows) {
    const CudnnConvolution& v = r.conv;
    const auto tensors = static_cast<double>(v.n * (v.c * v.h * v.w + v.k * v.p * v.q) * size_of(v.dtype));
    const double error = static_cast<double>(workspace_bytes(v, gpu_named(r.gpu)) - r.bytes) / tensors;
    errors.push_back(std::abs(error));
    bias += error;
  }
  std::sort(errors.begin(), errors.end());
  const auto count = static_cast<double>(errors.size());
  const auto within = [&](double bound) {
    return static_cast<double>(std::upper_bound(errors.begin(), errors.end(), bound) - errors.begin()) / count;
  };
  MESSAGE("within 1 %: " << within(0.01) << ", within 10 %: " << within(0.1) << ", bias: " << bias / count);
  CHECK(within(0.01) >= 0.72);
  CHECK(within(0.1) >= 0.79);
  CHECK(std::abs(bias / count) <= 0.05);
}

TEST_CASE("a TF32 convolution in NCHW transposes its tensors") {
  // x and y of [32, 64, 56, 56] fp32 take 25690112 B each, the filter 147456.
  CudnnConvolution v = three_by_three(32);
  CHECK(workspace_bytes(v, gpu_named("h200")) == 25690112 + 147456 + 16);
  v.pass = CudnnConvolution::Pass::backward_data;
  CHECK(workspace_bytes(v, gpu_named("h200")) == 2 * 25690112 + 147456 + 147);
  v.channels_last = true;
  CHECK(workspace_bytes(v, gpu_named("h200")) == 131);
}

TEST_CASE("batches between the recorded ones take the smaller one's form") {
  CHECK(workspace_bytes(three_by_three(48), gpu_named("h200")) == 48 * 64 * 56 * 56 * 4 + 147456 + 16);
}

TEST_CASE("fp64 convolutions work without a workspace") {
  CudnnConvolution v = three_by_three(32);
  v.dtype = DType::fp64;
  CHECK(workspace_bytes(v, gpu_named("h200")) == 0);
}

}  // namespace gpuplan
