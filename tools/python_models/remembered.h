// What was exported before, and whether it still holds.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/python_models/interpreter.h"

namespace gpuplan {

/// Where exports are kept: $XDG_CACHE_HOME/gpuplan/models, or ~/.cache/gpuplan/models; made if it is not there. Throws
/// Error (environment).
std::filesystem::path exports_folder();

/// Whether `words` mean something else in another folder.
enum class InFolder : unsigned char { any, this_one };
/// FOLDER/NAME-FINGERPRINT.yaml: readable, and another one for whatever the result depends on beside the files that it
/// was made of.
std::filesystem::path remembered_as(const std::vector<std::string>& words, const Interpreter& i, InFolder where);

/// Whether `spec` is there and each file that it was made of has the size and the time that SPEC.sources says
/// (tools/python/gpuplan/door.py writes it).
bool still_holds(const std::filesystem::path& spec);

}  // namespace gpuplan
