// The subcommands. Each registers itself with the program, and sets the exit code when it runs: 0 success, 1 the answer
// is no.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's name
class App;
}

namespace gpuplan {

struct Trace;

void add_plan_command(CLI::App& app, int& exit_code);
void add_layers_command(CLI::App& app, int& exit_code);
void add_check_command(CLI::App& app, int& exit_code);
void add_fit_command(CLI::App& app, int& exit_code);
/// `model`: what stands behind the first --.
void add_diff_command(CLI::App& app, int& exit_code, std::optional<std::string> model);
void add_sweep_command(CLI::App& app, int& exit_code);
void add_serve_command(CLI::App& app, int& exit_code);
void add_gpus_command(CLI::App& app, int& exit_code);
void add_instances_command(CLI::App& app, int& exit_code);
void add_explain_command(CLI::App& app, int& exit_code);
void add_import_command(CLI::App& app, int& exit_code);
void add_init_command(CLI::App& app, int& exit_code);
void add_replay_command(CLI::App& app, int& exit_code);
void add_snapshot_command(CLI::App& app, int& exit_code);
void add_schema_command(CLI::App& app, int& exit_code);
/// `words`: what stands behind the first --, the command to run as it is.
void add_shadow_command(CLI::App& app, int& exit_code, std::vector<std::string> words);
/// Needs the CUDA module and a GPU when it runs.
void add_validate_command(CLI::App& app, int& exit_code);
/// Likewise.
void add_calibrate_command(CLI::App& app, int& exit_code);
void add_version_command(CLI::App& app, int& exit_code);
void add_completion_command(CLI::App& app, int& exit_code);
void add_man_command(CLI::App& app, int& exit_code);
/// A server that answers until its standard input ends.
void add_mcp_command(CLI::App& app, int& exit_code);

/// Of plan's help and fit's.
inline constexpr const char* kWhatFits =
    "A step that runs only by giving PyTorch's cache back to the GPU does not fit: freeing the cache costs time in\n"
    "every step, and the step fails as soon as anything else takes memory. See gpuplan explain fits.";

/// A trace of allocator events, as replay takes it: a file, a pipe or "-". Throws Error.
Trace open_trace(const std::string& name);

/// "gpuplan 0.1.0"
std::string version_line();

/// Everything that the program does. `arguments` without the program's name. Returns the exit code; throws Error for
/// what the user can mend.
int run_command_line(std::vector<std::string> arguments);

}  // namespace gpuplan
