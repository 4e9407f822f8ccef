// Files that somebody wrote or recorded, which a slip of -o must not replace.
#pragma once

#include <string>
#include <string_view>

namespace gpuplan {

/// "a model", "a budget", "a trace", "a script" or what else describes a model or holds its weights, in words, by the
/// file's content. Empty for everything else: reports, jobs of --emit, pipes, what is not there. Throws Error: the file
/// cannot be read.
std::string kept_kind(const std::string& path);

/// Throws Error (usage) where `flag` would replace such a file, unless `force`. `own`: the kind that the flag writes
/// itself.
void refuse_to_replace(std::string_view flag, const std::string& path, bool force, std::string_view own = {});

}  // namespace gpuplan
