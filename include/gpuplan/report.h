// What a plan says. Bytes of one GPU, times in seconds.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gpuplan::v0 {

struct Report {
  std::int64_t peak_bytes = 0;         // torch.cuda.max_memory_allocated()
  std::int64_t requested_bytes = 0;    // the same without the allocator's rounding
  std::int64_t reserved_bytes = 0;     // torch.cuda.max_memory_reserved()
  std::int64_t device_bytes = 0;       // what nvidia-smi shows: reserved memory and the CUDA context
  std::int64_t at_most_bytes = 0;      // device_bytes where everything that is estimated takes the most that it may
  std::optional<bool> fits;            // device_bytes in the GPU's memory; none without a GPU
  std::optional<double> step_seconds;  // modelled; none without a GPU, and where its speed is not known
  double step_flops = 0;  // matrix products and convolutions, forward and backward; 1 multiply-add = 2 FLOP
  std::map<std::string, std::int64_t> categories;  // "activations", "optimizer_state", ...: bytes at the peak
  std::vector<std::string> warnings;
  std::string json;  // all of it, as `gpuplan plan --format json` writes it; `gpuplan schema plan` has its schema
};

}  // namespace gpuplan::v0
