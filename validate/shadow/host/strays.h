// Processes that a command leaves behind.
#pragma once

namespace gpuplan::shadow {

/// Ends every descendant of this process: asks them to (SIGTERM), and after five seconds insists. To be called by a
/// child subreaper, which no descendant can leave.
void end_strays();

}  // namespace gpuplan::shadow
