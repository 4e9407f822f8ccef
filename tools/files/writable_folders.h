// GPUPLAN_WRITE_ONLY: what a command line from elsewhere may write, where it is run in CI.
#pragma once

#include <filesystem>
#include <string>

namespace gpuplan {

/// Throws Error (usage) where $GPUPLAN_WRITE_ONLY names folders and files ("build:/tmp/summary") and `path`, behind all
/// symbolic links, is none of them and in none. `name`: the path as it was given.
void refuse_outside_writable(const std::filesystem::path& path, const std::string& name);

}  // namespace gpuplan
