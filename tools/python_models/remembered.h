// What was exported before, and whether it still holds.
#pragma once

#include <filesystem>
#include <string>

namespace gpuplan {

/// Where exports are kept: $XDG_CACHE_HOME/gpuplan/models, or ~/.cache/gpuplan/models; made if it is not there. Throws
/// Error (environment).
std::filesystem::path exports_folder();

/// Whether `spec` is there and each file that it was made of has the size and the time that SPEC.sources says
/// (tools/python/gpuplan/door.py writes it).
bool still_holds(const std::filesystem::path& spec);

}  // namespace gpuplan
