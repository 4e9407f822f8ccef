// Which convolution an operation graph of cuDNN's is: for what a device has answered of it, and for traces (session.h,
// `learn`), which say of each workspace what it is of. Followed through the descriptors that the program fills in;
// PyTorch makes graphs of one convolution.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "estimator/operators/cudnn_workspace.h"
#include "validate/shadow/runtime/cudnn_backend.h"
#include "validate/shadow/session.h"

namespace gpuplan::shadow::cudnn {

/// What an engine configuration was an answer to.
struct Asked {
  std::optional<CudnnConvolution> convolution = std::nullopt;  // nothing: not one convolution in two dimensions
  bool first = false;  // of the answers: what a program takes unless it leaves some out, as without TF32
};

/// Bytes that an H100 answered with cuDNN 9.19 (estimator/operators/cudnn_workspace.h), whichever cuDNN is installed.
/// Nothing where none was asked, as of other GPUs, of fp64 and of what PyTorch convolves itself, or where the program
/// does not take cuDNN's first answer.
std::optional<std::int64_t> answer_of_device(const Asked& asked, const GpuDescription& gpu);

class Questions {
 public:
  void created(int type, Descriptor descriptor) { parts_[descriptor] = {.type = type}; }
  void set(Descriptor descriptor, int attribute, std::int64_t count, const void* values);
  /// The heuristics have answered with these configurations.
  void answered(Descriptor heuristics, const Descriptor* configurations, std::int64_t count);
  void destroyed(Descriptor descriptor) { parts_.erase(descriptor); }
  Asked of(Descriptor configuration) const;

 private:
  struct Part {
    int type = 0;
    std::map<int, std::vector<std::int64_t>> numbers = {};  // of a tensor or a convolution, by attribute
    std::map<int, Descriptor> operands = {};                // of an operation, by attribute
    Asked asked = {};                                       // of a graph and what is made of it
  };
  const std::vector<std::int64_t>* numbers_of(const Part& operation, int operand, int attribute,
                                              std::size_t count) const;
  std::optional<CudnnConvolution> convolution_of(Descriptor operation) const;

  std::unordered_map<Descriptor, Part> parts_;
};

/// Appends to workspaces.PID.tsv the bytes and "forward 0 nchw N C H W K R S P Q STRIDE_H STRIDE_W PAD_H PAD_W
/// DILATION_H DILATION_W GROUPS", tab-separated; the number behind the pass is its cudnnDataType_t. Only the bytes
/// where there is no convolution.
void write_workspace(std::int64_t bytes, const std::optional<CudnnConvolution>& convolution);

}  // namespace gpuplan::shadow::cudnn
