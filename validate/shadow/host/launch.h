// Starts a command under the runtime, and stays until it and everything that it started has ended.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "validate/shadow/host/run_report.h"
#include "validate/shadow/session.h"

namespace gpuplan::shadow {

/// `environment` ("NAME=value" each) with the session named, and the runtime's libraries and Python hook in front of
/// what LD_PRELOAD, LD_LIBRARY_PATH and PYTHONPATH have; with --world also what torch.distributed reads of a rank.
std::vector<std::string> session_environment(const std::vector<std::string>& environment,
                                             const std::filesystem::path& runtime, const std::string& session,
                                             const Settings& settings);

/// Runs `command`, found at `program`. Standard streams are the caller's. Signals that would end this process are
/// passed on and the command's end awaited; `tick` is called about five times a second meanwhile. What the command
/// leaves behind is ended, with a few seconds' notice. Throws std::system_error where the program cannot be started.
Ending run_command(const std::filesystem::path& program, const std::vector<std::string>& command,
                   const std::vector<std::string>& environment, const std::function<void()>& tick);

}  // namespace gpuplan::shadow
