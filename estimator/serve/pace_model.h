// How fast engines run a decoder, as constants, so that tests/times/pace_fit_main.cpp can fit them again. Beside
// TimeModel, whose products, attention and calls of the host they build on.
//
// Where they come from: half of the published readings of tests/times/serving_readings.csv (`fit`), with the least
// absolute error of the logarithm; the other half (`held`) says how far off they are (tests/times/RESULTS.md). What an
// engine's code says is counted instead, in engine_kernels.cpp.
#pragma once

namespace gpuplan {

struct PaceModel {
  double stream = 0.88;  // share of the memory's rate at which products of few tokens read their weights
  // The same of PyTorch's element-wise kernels under transformers, whose tensors are transposed, sliced and repeated.
  double element_wise = 0.46;
  double kernel_start = 2.3e-6;  // seconds between two kernels that are queued, or replayed by a CUDA graph
  // Share of what TimeModel says of products where tensor cores are asked for their full rate, at which clocks fall at
  // the power limit; and where they sum in fp32 at half of it (Datasheet::fp32_accumulate), which leaves them cooler.
  double full_rate = 0.72, half_rate = 1.16;
  double unpacking = 0.16;  // of the peak, that products reach which unpack int4 as they go (AutoAWQ's GEMM)

  // llama.cpp's products of a vector have so few loads in flight that they do not keep the memory of an A100 busy:
  // bytes a clock and multiprocessor.
  double llama_cpp_bytes_a_clock = 7.2;

  double vllm_step = 2.5e-3;        // seconds, to schedule a step, prepare its inputs, sample and detokenize
  double llama_cpp_step = 0.3e-3;   // seconds, to build a step's graph and to sample
  double transformers_host = 0.53;  // so many times TimeModel's seconds of the host's calls: its hosts are of 2018
  // So many times as long as streaming takes what transformers does to its cache each step (engine_kernels.h).
  double transformers_cache = 3;
};

}  // namespace gpuplan
