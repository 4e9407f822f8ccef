// Files that have another name than they had at the base.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace gpuplan::git {

/// From the names of files now to those that they had in `base`, a full id: what git takes for renamed between that
/// commit and `commit`, or the files in the working tree where that is empty. A file that git does not track yet is not
/// among them. Throws Error (environment).
std::map<std::string, std::string> renames_since(const std::filesystem::path& repository, const std::string& base,
                                                 const std::string& commit = {});

}  // namespace gpuplan::git
