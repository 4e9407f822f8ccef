// Paths of modules against patterns: * is any run of characters within one name, ** any run, ? one character.
#pragma once

#include <string_view>

namespace gpuplan {

bool matches_glob(std::string_view path, std::string_view pattern);

}  // namespace gpuplan
