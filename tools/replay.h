#pragma once

namespace CLI {
class App;
}

namespace gpuplan {

/// Registers `gpuplan replay`; its callback sets exit_code: 0, or 1 when --check finds a difference.
void add_replay_command(CLI::App& app, int& exit_code);

}  // namespace gpuplan
