// gpuplan shadow where it cannot run: its runtime stands in for CUDA's by what Linux's dynamic linker offers.
#include <CLI/CLI.hpp>
#include <memory>

#include "tools/commands/commands.h"
#include "tools/options/shadow_options.h"

namespace gpuplan {

void add_shadow_command(CLI::App& app, int& /*exit_code*/, std::vector<std::string> words) {
  const auto options = std::make_shared<ShadowOptions>();
  options->command = std::move(words);
  CLI::App* const command = app.add_subcommand("shadow", "Runs any command as if it had a GPU (64-bit Linux only)");
  add_shadow_options(*command, *options);
  command->callback([options] {
    throw Error("gpuplan shadow needs 64-bit Linux, whose dynamic linker puts its runtime in the place of CUDA's",
                ErrorKind::environment)
        .help("run it in a Linux container or virtual machine, which needs no GPU");
  });
}

}  // namespace gpuplan
