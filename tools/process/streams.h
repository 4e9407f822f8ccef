// Standard output and standard error.
#pragma once

#include <string>

namespace gpuplan {

/// Nobody reads standard output any more. No Error: there is nothing to tell, and nobody to tell it to.
struct BrokenPipe {};

/// Throws Error (environment) when not everything could be written; BrokenPipe where nobody reads standard output.
void write_stdout(const std::string& text);
/// To standard error; what cannot be written there is lost.
void write_stderr(const std::string& text);

}  // namespace gpuplan
