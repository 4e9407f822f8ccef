// The stack that the program runs on, whatever `ulimit -s` leaves of it.
#pragma once

#include <functional>

namespace gpuplan {

/// What `program` returns, run on a stack of 8 MiB, of its own where the shell's limit is lower; threads that it starts
/// have as much. How deep models, expressions and files may nest (estimator/spec/limits.h) needs a part of that.
int on_large_stack(const std::function<int()>& program);

}  // namespace gpuplan
