// Names that someone else has chosen, in Markdown, which gives characters a meaning.
#pragma once

#include <string>
#include <string_view>

namespace gpuplan {

/// Within a line of Markdown: nothing of it is markup, HTML, a mention or a new line. Who writes a table escapes pipes,
/// as TextTable::markdown() does.
std::string markdown_text(std::string_view text);
/// The same in a code span, which shows it as it is.
std::string markdown_code(std::string_view text);

}  // namespace gpuplan
