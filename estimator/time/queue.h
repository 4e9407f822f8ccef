// Simulates the host's calls and the GPU's stream.
#pragma once

#include <algorithm>

namespace gpuplan {

class Queue {
 public:
  /// The host needs `call` seconds, then the GPU `run` as soon as it is free. Returns how long the GPU waited.
  double launch(double call, double run) {
    host_ += call;
    const double waited = std::max(host_ - gpu_, 0.0);
    gpu_ += waited + run;
    return waited;
  }
  /// The host waits until all that was launched is done.
  void synchronize() { host_ = std::max(host_, gpu_); }
  /// The GPU does nothing more before that time.
  void wait(double until) { gpu_ = std::max(gpu_, until); }
  double gpu() const { return gpu_; }
  double host() const { return host_; }

 private:
  double host_ = 0, gpu_ = 0;
};

}  // namespace gpuplan
