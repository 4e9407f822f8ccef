// A text that somebody goes on to edit: a spec of `gpuplan init` or `gpuplan import`, a file of budgets.
#pragma once

#include <string>

namespace gpuplan {

/// Writes the text into the file, or to standard output where `file` is empty or "-". A file that has another text may
/// have been edited, and stays as it is unless `replace`: Error (usage). Throws Error (environment): it cannot be
/// written.
void write_draft(const std::string& file, const std::string& text, bool replace);

}  // namespace gpuplan
