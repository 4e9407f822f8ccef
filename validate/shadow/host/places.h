// Where the runtime lies.
#pragma once

#include <filesystem>
#include <optional>

namespace gpuplan::shadow {

/// The directory with libgpuplan_shadow.so, libcuda.so.1, libnvidia-ml.so.1 and python/: beside the program in a build
/// tree, under its prefix when installed. Absent where there is none.
std::optional<std::filesystem::path> find_runtime();

}  // namespace gpuplan::shadow
