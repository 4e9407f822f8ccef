// Checks of a file's bytes before they are parsed as YAML.
#pragma once

#include "estimator/base/error.h"

namespace gpuplan {

/// Throws Error unless the text is at most kMaxSpecBytes of UTF-8 with neither control characters
/// (yaml-cpp takes 0x04 for the end of the file) nor tabs in the indentation. A byte order mark and
/// CRLF line ends are fine.
void check_yaml_text(const Source& source);

/// Length of the UTF-8 byte order mark at the start of `text`: 3 or 0.
std::size_t byte_order_mark_bytes(std::string_view text);

}  // namespace gpuplan
