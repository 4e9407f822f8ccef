// Which repository a file belongs to, and what it is called there.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace gpuplan::git {

/// The top folder of the working tree that `path` (a file or a folder, there or not) lies in; nothing where that is no
/// repository, or one without a working tree. Throws Error (environment): there is no git, or git refuses the folder.
std::optional<std::filesystem::path> repository_of(const std::filesystem::path& path);

/// The name of a file in its repository, parts joined by '/': "configs/gpt2.yaml". Symbolic links of folders are
/// followed as the file system has them; the file itself may be one. Throws Error: it lies outside of `repository`.
std::string path_in_repository(const std::filesystem::path& repository, const std::filesystem::path& path);

/// Whether git has a file of that name in its index, or a submodule that it lies in.
bool is_tracked(const std::filesystem::path& repository, const std::string& path);

/// Whether commits are missing, as CI systems check repositories out.
bool is_shallow(const std::filesystem::path& repository);

}  // namespace gpuplan::git
