// Commits by name.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuplan::git {

/// The full id of the commit that `name` means ("main", "v1.2", "HEAD~3", a short id); nothing where there is none.
/// Throws Error (environment) where git cannot read what it has of it.
std::optional<std::string> commit_called(const std::filesystem::path& repository, const std::string& name);
/// The same. Throws Error: usage for what cannot be a name of a commit and for one that is not there, with the nearest
/// names; environment where the clone is shallow and may lack it.
std::string require_commit(const std::filesystem::path& repository, const std::string& name);

/// The commit that is checked out. Throws Error (environment) where nothing has been committed yet.
std::string head_commit(const std::filesystem::path& repository);
/// The parents that a commit was made with, there or, in a shallow clone, not.
std::vector<std::string> parents_of(const std::filesystem::path& repository, const std::string& commit);
/// The best common ancestor of two commits; nothing where they have none.
std::optional<std::string> merge_base(const std::filesystem::path& repository, const std::string& a,
                                      const std::string& b);

/// The part of a full id that people write: "3f2c1ab".
std::string short_id(std::string_view commit);

}  // namespace gpuplan::git
