// Whether a text is well-formed XML, as far as this repository's writers go: no comments, no CDATA, no DTD.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gpuplan::tests {

/// What is wrong with it; nothing where it is well-formed.
std::optional<std::string> xml_error(std::string_view text);

}  // namespace gpuplan::tests
