// How fast GPUs and hosts run PyTorch where nothing was measured on the GPU itself: the constants of the time model, as
// values, so that tests/times/time_fit_main.cpp can fit them again with one GPU left out (tests/times/RESULTS.md).
//
// Where they come from:
// - products: DeepBench's 640 matrix products and 1,095 convolutions on P100, GTX 1080 Ti and V100
//   (tests/times/kernels.csv, with their sources), least absolute error of the logarithm;
// - the host and the copies: 584 training and inference times of torchvision's models at batch 12 on six GPUs
//   (tests/times/cnn_step_times.csv), which were taken on hosts of 2018 to 2021;
// - products whose rows are not multiples of 16 bytes: seven published pairs, of an A100, an H100 and an
//   RTX 4090 (tests/times/unaligned.csv, with their sources);
// - attention: FlashAttention-2 reaches 50 to 73 % of an A100's peak (Dao, arXiv:2307.08691, section 4).
#pragma once

#include <array>
#include <cstdint>

namespace gpuplan {

/// What a kernel of products computes at a time: rows and columns of the result a thread block.
struct Tile {
  std::int64_t rows, columns;
};
constexpr std::array<Tile, 6> kTiles = {{{256, 128}, {128, 128}, {128, 64}, {64, 64}, {64, 32}, {32, 32}}};
using TileShares = std::array<double, kTiles.size()>;

struct TimeModel {
  // Share of a multiprocessor's peak that a thread block reaches in its main loop, by tile.
  TileShares on_cuda_cores{0.89, 0.87, 0.77, 0.75, 0.56, 0.38};
  TileShares on_tensor_cores{0.86, 0.84, 0.68, 0.61, 0.41, 0.41};
  // Before and after its main loop a block takes as long as for so many steps of the contracted dimension.
  double fill_on_cuda_cores = 47, fill_on_tensor_cores = 55;

  // Multiply-adds a clock and multiprocessor on tensor cores, at most, of a product whose factors' rows do not begin at
  // multiples of 16 bytes: its kernels load fewer bytes at a time, and from Hopper on they are Ampere's, for tensor
  // maps want such rows (CUDA Driver API, cuTensorMapEncodeTiled). Since cuBLAS 11 they run on tensor cores at all
  // (NVIDIA's "Matrix Multiplication Background User's Guide", table 1). Measured of fp16 and bf16; TF32 is taken to be
  // alike.
  double unaligned_multiply_adds = 420;

  // cuDNN's kernels for tensor cores take images with their channels last; of others it makes copies, which take as
  // long as so many passes over image, filter and result (two, were nothing of it hidden). Fitted with the host;
  // ResNet-50's published gains of channels_last are 22 % (PyTorch's tutorial, V100) and about 30 % (Composer's method
  // card, V100 and A100), with this it is 28 % on a V100.
  double layout_passes = 1.5;

  // Of a convolution, the share of what the matrix product of its size reaches, by pass.
  double convolution_forward = 0.95, convolution_data = 0.85, convolution_filter = 0.65;
  double winograd = 1.95;  // gain of 3x3 with stride 1 in fp32 on CUDA cores; cuDNN has none for fp16 there
  // Depthwise convolutions: of the achieved bandwidth, and of the CUDA cores' peak.
  double depthwise_bandwidth = 0.5, depthwise_compute = 0.2;
  double attention_forward = 0.6, attention_backward = 0.5;  // of the peak
  double recurrence = 0.5;

  double bandwidth = 0.75;       // of the memory's peak
  double kernel_seconds = 5e-6;  // to start a kernel and to let it end
  // A batch norm in training reads its input twice, and in backward both of its inputs.
  double batch_norm_passes = 1.6;

  // What the host needs to call an operation of the forward, seconds, and in training, with autograd recording, so many
  // times that; to run a node of backward; to accumulate a parameter's gradient and reset it.
  double host_product = 43e-6, host_norm = 64e-6, host_other = 26e-6;
  double host_recording = 2.1, host_backward = 8e-6, host_parameter = 77e-6;
  double host_optimizer_kernel = 10e-6;  // to prepare and launch one kernel of an optimizer

  // The standard deviation, over GPUs of one kind, of the time that a kernel takes which the clock limits: a share.
  // SGEMM on 392 V100s of TACC's Longhorn, from the quartiles of each GPU's median; ResNet-50 on 219 A100s of 40 GB
  // says 0.021, kernels that the memory limits 0.001 (tests/times/gpu_spread.csv, with their source).
  double clock_spread = 0.017;
  double slower = 1;  // so many times as long kernels compute on the GPU that is timed: the slowest of several

  double pageable_bytes = 2.4e9;  // a second from memory that is not pinned
  double link = 0.8;              // share of the host link's rate from pinned memory
};

}  // namespace gpuplan
