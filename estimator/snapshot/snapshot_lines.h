// The line of code that a stack stands for, in printable words.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/snapshot/snapshot.h"

namespace gpuplan {

struct SnapshotLine {
  std::string text;  // "train.py:23 step"; of backward "backward", with the kernel's C++ name where there is one
  std::string file;  // as recorded; empty where no line of Python is known
  std::int32_t line = 0;
  std::string module;      // "torch.nn.modules.conv", the innermost whose forward this is; empty: none is known
  bool backward = false;   // allocated by autograd's engine
  bool optimizer = false;  // within torch.optim
};

/// The innermost line of Python that is not PyTorch's own, of each stack of a snapshot. Backward runs in a thread of
/// its own, in which there is none.
std::vector<SnapshotLine> lines_of(const Snapshot& snapshot);

}  // namespace gpuplan
