// Files that Git LFS keeps beside git: commits have pointers to them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace gpuplan::git {

/// The SHA-256 that a pointer names, in hexadecimal digits; nothing of any other text.
std::optional<std::string> lfs_pointer(std::string_view text);

/// Where this clone has the content, which need not be there.
std::filesystem::path lfs_content(const std::filesystem::path& repository, const std::string& sha256);

}  // namespace gpuplan::git
