// Names that someone else has chosen, in texts that give characters a meaning.
#pragma once

#include <string>
#include <string_view>

namespace gpuplan {

/// On one line of a terminal: control characters, which could be commands to it, as question marks.
std::string one_line(std::string_view text);
/// Within a line of Markdown: nothing of it is markup, HTML, a mention or a new line. Who writes a table escapes pipes,
/// as TextTable::markdown() does.
std::string markdown_text(std::string_view text);
/// The same in a code span, which shows it as it is.
std::string markdown_code(std::string_view text);

}  // namespace gpuplan
