// The one way in which a result becomes a file.
//
// A regular file is written beside its place, synced and renamed, so that a full disk, a limit or a signal leaves the
// old one; it keeps its mode and owner. The target of a symbolic link is what is replaced. What is no regular file - a
// pipe, a device - is written through, and so is what is open already: /dev/stdout, /dev/fd/N, the file that standard
// output or error goes to. Where a file cannot be replaced (a folder without permission, a mount of one file, another
// owner's) it is written in place: first what makes it longer, so that a full disk is noticed in time.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace gpuplan {

/// Hands the parts of a text, in their order, to `write`. It may be called twice.
using TextParts = std::function<void(const std::function<void(std::string_view part)>& write)>;

/// Throw Error: environment where the file cannot be written, usage where GPUPLAN_WRITE_ONLY does not allow it
/// (writable_folders.h).
void write_file(const std::string& name, std::string_view text);
void write_file(const std::string& name, const TextParts& parts);

/// Behind what is there, for a file that others write to as well; a failure takes back what was added of a regular one.
/// Throws Error (environment).
void append_to_file(const std::string& name, std::string_view text);

/// Whether write_file() is likely to succeed, as far as permissions say. Throws Error (usage) as write_file() does.
bool can_be_written(const std::string& name);

}  // namespace gpuplan
