// Any bytes as the text of an XML file.
#pragma once

#include <string>
#include <string_view>

namespace gpuplan {

/// With entities for what XML gives a meaning (also within quotes), and U+FFFD in the place of what it cannot hold:
/// bytes that are not UTF-8 and the control characters that production 2, Char, of XML 1.0 leaves out.
std::string xml_text(std::string_view bytes);

}  // namespace gpuplan
