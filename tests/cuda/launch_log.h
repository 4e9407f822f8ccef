// The launches that the shadow runtime wrote down, each against the limits of the GPU and the memory of the operation
// that made it.
#pragma once

#include <cstdint>
#include <istream>
#include <map>
#include <string>
#include <vector>

#include "tests/cuda/events.h"
#include "tests/cuda/recording_device.h"

namespace gpuplan {

struct LaunchLimits {
  std::int64_t shared_bytes = 0;   // of a block
  std::int64_t partial_bytes = 0;  // the device's own page beside the segments: kernels' partial sums
};

struct CheckedLaunches {
  std::int64_t kernels = 0, products = 0;          // launches of our own and of cuBLASLt
  std::int64_t convolutions = 0, batch_norms = 0;  // of cuDNN
  std::int64_t undescribed = 0;                    // of cuDNN, whose operands the log does not have
  std::int64_t pointers = 0;                       // arguments that point into device memory
  std::map<std::string, std::int64_t> without;     // operations that launched nothing, by name
  std::vector<std::string> wrong;
};

/// `log`: a line a launch of this process, as in launches.PID.tsv. What is checked of every launch:
///   stream 0, not captured; made by one of `works`
///   grid up to 2^31 - 1, 65535, 65535; block up to 1024 threads, 1024, 1024, 64; shared memory
///   each argument that is, or holds, the address of device memory: inside an operand or the scratch of its operation,
///   or inside the device's own page; never in a segment that the operation has nothing in, nor in one that was freed
///   a product's matrices and bias from the first byte to the last, and that their sizes fit each other
///   a convolution's image, filter, result and workspace, and a batch norm's images, vectors of channels and workspace,
///   from the first byte to the last; of cuDNN's other computations (recurrent layers) only the stream and the
///   operation
/// Not what a kernel does with its pointers: its bounds are in its code.
CheckedLaunches check_launches(std::istream& log, const std::vector<Work>& works,
                               const std::vector<Extent>& segments_ever, const LaunchLimits& limits);

}  // namespace gpuplan
