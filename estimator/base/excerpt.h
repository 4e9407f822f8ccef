// A line of a file with a caret below, as error messages show it.
#pragma once

#include <string>
#include <string_view>

#include "estimator/base/error.h"

namespace gpuplan {

/// "  --> FILE:LINE:COL\n   12 | the line\n      |     ^^^ LABEL\n"; "" for a mark of nowhere.
std::string excerpt(const SourceMark& mark, std::string_view label = {});
/// What may be printed of a text out of a file: control characters as spaces, those that turn the direction of text
/// as U+FFFD.
std::string printable_text(std::string_view text);

}  // namespace gpuplan
