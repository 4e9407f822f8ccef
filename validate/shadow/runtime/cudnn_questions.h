// Which convolution an operation graph of cuDNN's is: for traces (session.h, `learn`), which say of each workspace what
// it is of. Followed through the descriptors that the program fills in; PyTorch makes graphs of one convolution.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "validate/shadow/runtime/cudnn_backend.h"

namespace gpuplan::shadow::cudnn {

/// A convolution as a line of workspaces.PID.tsv, without the bytes: "forward 0 nchw N C H W K R S P Q STRIDE_H
/// STRIDE_W PAD_H PAD_W DILATION_H DILATION_W GROUPS", tab-separated; the number behind the pass is its
/// cudnnDataType_t.
class Questions {
 public:
  void created(int type, Descriptor descriptor) { parts_[descriptor] = {.type = type}; }
  void set(Descriptor descriptor, int attribute, std::int64_t count, const void* values);
  /// The heuristics have answered with these configurations.
  void answered(Descriptor heuristics, const Descriptor* configurations, std::int64_t count);
  void destroyed(Descriptor descriptor) { parts_.erase(descriptor); }
  /// "" where it is not one convolution in two dimensions.
  std::string line_of(Descriptor configuration) const;

 private:
  struct Part {
    int type = 0;
    std::map<int, std::vector<std::int64_t>> numbers = {};  // of a tensor or a convolution, by attribute
    std::map<int, Descriptor> operands = {};                // of an operation, by attribute
    std::string line = {};                                  // of a graph and what is made of it
  };
  const std::vector<std::int64_t>* numbers_of(const Part& operation, int operand, int attribute,
                                              std::size_t count) const;
  std::string line_of_operation(Descriptor descriptor) const;

  std::unordered_map<Descriptor, Part> parts_;
};

/// Appends to workspaces.PID.tsv: the bytes and a line of the above.
void write_workspace(std::int64_t bytes, const std::string& line);

}  // namespace gpuplan::shadow::cudnn
