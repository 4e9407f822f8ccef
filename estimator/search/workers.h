// Work on several cores, with results that do not depend on how many there are.
#pragma once

#include <cstddef>
#include <functional>

namespace gpuplan {

/// Calls work(0) to work(n - 1), each once, on `threads` threads of which the caller is one; they take pieces in
/// order. `between` is called by the caller between its pieces with how many are done. What a piece throws is thrown
/// here once all threads have ended; of several, that of the first piece. Later pieces may then be left undone.
void run_on_workers(std::size_t n, std::size_t threads, const std::function<void(std::size_t)>& work,
                    const std::function<void(std::size_t)>& between = {});

/// What the machine runs at once, at least 1.
std::size_t cores();

}  // namespace gpuplan
