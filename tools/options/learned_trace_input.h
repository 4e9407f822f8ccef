// Whether a model that was named is what gpuplan shadow --learn has written.
#pragma once

#include <string_view>

#include "tools/process/read_source.h"

namespace gpuplan {

/// Whether what was named begins as a learned trace does.
bool is_learned_trace(const NamedFile& input);
/// Whether a text begins as one does.
bool is_trace_text(std::string_view text);
/// Of a command that needs layers, where the model is a trace. Throws Error (usage).
void refuse_learned_trace(const NamedFile& input);

}  // namespace gpuplan
